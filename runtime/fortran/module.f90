! The interface of Isogrid for Fortran; made from the C headers by runtime/fortran/make_module.py.
! docs/fortran.md tells how names, types and arguments of C are seen from Fortran.
module isogrid
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
    implicit none
    private

    public :: iso_init, iso_init_on, iso_data
!@public

    ! ---- constants ----

!@constants

    ! ---- types: handles, and structs of C ----

!@types

    ! A text that lives as long as the call that it is passed to.
    type :: c_text
        character(kind=c_char), allocatable :: characters(:)
    end type c_text

    ! The command line; iso_init takes its options out.
    integer(c_int), save :: argument_count
    type(c_text), allocatable, target, save :: arguments(:)
    type(c_ptr), allocatable, target, save :: argument_addresses(:)

    ! An array as rows for a data set, without a copy: its last dimension is the rows. It must be contiguous.
    interface iso_data
        module procedure data_real32, data_real64, data_int32, data_int64, data_int8
    end interface iso_data

    interface
        function c_iso_init(argc, argv, ctx) bind(C, name="iso_init") result(r_)
            import
            integer(c_int), intent(inout) :: argc
            type(c_ptr), intent(inout) :: argv
            type(iso_context), intent(inout) :: ctx
            integer(c_int) :: r_
        end function c_iso_init
        function c_iso_init_on(communicator, argc, argv, ctx) bind(C, name="iso_init_on_fortran") result(r_)
            import
            integer(c_int), value :: communicator
            integer(c_int), intent(inout) :: argc
            type(c_ptr), intent(inout) :: argv
            type(iso_context), intent(inout) :: ctx
            integer(c_int) :: r_
        end function c_iso_init_on
        function c_strlen(text) bind(C, name="strlen") result(r_)
            import
            type(c_ptr), value :: text
            integer(c_size_t) :: r_
        end function c_strlen
!@interfaces
    end interface

contains

    ! ---- contexts ----

    ! Begins a context, and MPI if a launcher started the program. Isogrid takes its options from the command line.
    function iso_init(ctx) result(r_)
        type(iso_context), intent(inout) :: ctx
        integer(c_int) :: r_
        type(c_ptr) :: argv
        call get_arguments(argv)
        r_ = c_iso_init(argument_count, argv, ctx)
    end function iso_init

    ! Begins a context on a communicator of the program, which has begun MPI: an integer of the module mpi, or %MPI_VAL of
    ! mpi_f08.
    function iso_init_on(communicator, ctx) result(r_)
        integer, intent(in) :: communicator
        type(iso_context), intent(inout) :: ctx
        integer(c_int) :: r_
        type(c_ptr) :: argv
        call get_arguments(argv)
        r_ = c_iso_init_on(communicator, argument_count, argv, ctx)
    end function iso_init_on

    ! The command line as main() of C has it. The first call stores it.
    subroutine get_arguments(argv)
        type(c_ptr), intent(out) :: argv
        character(:), allocatable :: text
        integer :: i, length
        if (.not. allocated(arguments)) then
            argument_count = command_argument_count() + 1
            allocate(arguments(argument_count), argument_addresses(argument_count + 1))
            do i = 1, argument_count
                call get_command_argument(i - 1, length=length)
                text = repeat(" ", length)
                call get_command_argument(i - 1, text)
                call set_text(argument_addresses(i), text, arguments(i)%characters)
            end do
        end if
        argv = c_loc(argument_addresses)
    end subroutine get_arguments

    ! ---- arrays as rows of a data set ----

    function data_real32(x) result(array)
        real(real32), target, contiguous, intent(in) :: x(..)
        type(iso_data_array) :: array
        integer :: i
        array = rows_of(c_loc(x), ISO_F32, [(size(x, i), i = rank(x), 1, -1)])
    end function data_real32

    function data_real64(x) result(array)
        real(real64), target, contiguous, intent(in) :: x(..)
        type(iso_data_array) :: array
        integer :: i
        array = rows_of(c_loc(x), ISO_F64, [(size(x, i), i = rank(x), 1, -1)])
    end function data_real64

    function data_int32(x) result(array)
        integer(int32), target, contiguous, intent(in) :: x(..)
        type(iso_data_array) :: array
        integer :: i
        array = rows_of(c_loc(x), ISO_I32, [(size(x, i), i = rank(x), 1, -1)])
    end function data_int32

    function data_int64(x) result(array)
        integer(int64), target, contiguous, intent(in) :: x(..)
        type(iso_data_array) :: array
        integer :: i
        array = rows_of(c_loc(x), ISO_I64, [(size(x, i), i = rank(x), 1, -1)])
    end function data_int64

    ! Bytes from 0 to 255.
    function data_int8(x) result(array)
        integer(int8), target, contiguous, intent(in) :: x(..)
        type(iso_data_array) :: array
        integer :: i
        array = rows_of(c_loc(x), ISO_U8, [(size(x, i), i = rank(x), 1, -1)])
    end function data_int8

    ! extents: those of C, from the last one of Fortran to the first.
    function rows_of(data, dtype, extents) result(array)
        type(c_ptr), intent(in) :: data
        integer(c_int), intent(in) :: dtype
        integer, intent(in) :: extents(:)
        type(iso_data_array) :: array
        array%data = data
        array%dtype = dtype
        array%shape = shape_of(extents)
    end function rows_of

    ! ---- conversions ----

    ! A shape as C has it: the dimension of the rows comes first.
    function shape_of(extents) result(c_shape)
        integer, intent(in) :: extents(:)
        type(iso_shape) :: c_shape
        c_shape%rank = ubound(extents, 1)
        c_shape%dim(1:min(ubound(extents, 1), ISO_MAX_RANK)) = extents(1:min(ubound(extents, 1), ISO_MAX_RANK))
    end function shape_of

    function extents_of(c_shape) result(extents)
        type(iso_shape), intent(in) :: c_shape
        integer, allocatable :: extents(:)
        extents = int(c_shape%dim(1:c_shape%rank))
    end function extents_of

    function extents_at(address) result(extents)
        type(c_ptr), intent(in) :: address
        type(iso_shape), pointer :: c_shape
        integer, allocatable :: extents(:)
        extents = [integer ::]
        if (.not. c_associated(address)) return
        call c_f_pointer(address, c_shape)
        extents = extents_of(c_shape)
    end function extents_at

    function text_of(address) result(text)
        type(c_ptr), intent(in) :: address
        character(:), allocatable :: text
        character(kind=c_char), pointer :: characters(:)
        integer :: i
        text = ""
        if (.not. c_associated(address)) return
        call c_f_pointer(address, characters, [c_strlen(address)])
        text = repeat(" ", ubound(characters, 1))
        do i = 1, ubound(characters, 1)
            text(i:i) = characters(i)
        end do
    end function text_of

    ! The address of a text without trailing blanks, terminated as in C, in the storage that is passed.
    subroutine set_text(address, text, storage)
        type(c_ptr), intent(inout) :: address
        character(*), intent(in) :: text
        character(kind=c_char), allocatable, target, intent(inout) :: storage(:)
        integer :: i
        allocate(storage(len_trim(text) + 1))
        do i = 1, len_trim(text)
            storage(i) = text(i:i)
        end do
        storage(len_trim(text) + 1) = c_null_char
        address = c_loc(storage)
    end subroutine set_text

    subroutine set_texts(addresses, texts, storage)
        type(c_ptr), intent(inout) :: addresses(:)
        character(*), intent(in) :: texts(:)
        type(c_text), target, intent(inout) :: storage(:)
        integer :: i
        do i = 1, ubound(texts, 1)
            call set_text(addresses(i), texts(i), storage(i)%characters)
        end do
    end subroutine set_texts

!@procedures
end module isogrid
