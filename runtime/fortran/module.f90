! The interface of Isogrid for Fortran; made from the C headers by runtime/fortran/make_module.py.
! docs/fortran.md tells how names, types and arguments of C are seen from Fortran.
module isogrid
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
    implicit none
    private

    public :: iso_init, iso_init_on, iso_option, iso_data
    ! The number zero in an option where 0 means the default; of a real option real(ISO_ZERO, c_double).
    integer(c_int), parameter, public :: ISO_ZERO = -2147483647 - 1
!@public

    ! ---- constants ----

!@constants

    ! ---- types: handles, and structs of C ----

!@types

    ! A text that lives as long as the call that it is passed to.
    type :: c_text
        character(kind=c_char), allocatable :: characters(:)
    end type c_text

    ! A text that a struct keeps after the call that it was passed to.
    type :: lasting_text
        character(:), allocatable :: text
        character(kind=c_char), allocatable :: storage(:)
        type(c_ptr) :: address = c_null_ptr
        type(lasting_text), pointer :: next => null()
    end type lasting_text
    type(lasting_text), pointer, save :: lasting_texts => null()

    ! The command line; iso_init takes its options out.
    integer(c_int), save :: argument_count
    type(c_text), allocatable, target, save :: arguments(:)
    type(c_ptr), allocatable, target, save :: argument_addresses(:)

    ! An array as rows for a data set, without a copy: its last dimension is the rows. It must be contiguous, and is refused
    ! by what takes the rows if it is not.
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
        function c_iso_option(ctx, name, fallback) bind(C, name="iso_option") result(r_)
            import
            type(iso_context), value :: ctx
            character(kind=c_char), intent(in) :: name(*)
            type(c_ptr), value :: fallback
            type(c_ptr) :: r_
        end function c_iso_option
        subroutine c_iso_graph_fail_text(graph, text) bind(C, name="iso_graph_fail_text")
            import
            type(iso_graph), value :: graph
            character(kind=c_char), intent(in) :: text(*)
        end subroutine c_iso_graph_fail_text
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
        r_ = c_iso_init_on(int(communicator, c_int), argument_count, argv, ctx)
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

    ! The value of an option that iso_init took, otherwise `fallback`.
    function iso_option(ctx, name, fallback) result(r_)
        type(iso_context), intent(in) :: ctx
        character(*), intent(in) :: name, fallback
        character(:), allocatable :: r_
        type(c_ptr) :: found
        found = c_iso_option(ctx, trim(name) // c_null_char, c_null_ptr)
        r_ = fallback
        if (c_associated(found)) r_ = text_of(found)
    end function iso_option

    ! ---- arrays as rows of a data set ----

    function data_real32(x) result(array)
        real(real32), target, intent(in) :: x(..)
        type(iso_data_array) :: array
        integer :: i
        array = rows_of(c_loc(x), is_contiguous(x), ISO_F32, [(size(x, i), i = rank(x), 1, -1)])
    end function data_real32

    function data_real64(x) result(array)
        real(real64), target, intent(in) :: x(..)
        type(iso_data_array) :: array
        integer :: i
        array = rows_of(c_loc(x), is_contiguous(x), ISO_F64, [(size(x, i), i = rank(x), 1, -1)])
    end function data_real64

    function data_int32(x) result(array)
        integer(int32), target, intent(in) :: x(..)
        type(iso_data_array) :: array
        integer :: i
        array = rows_of(c_loc(x), is_contiguous(x), ISO_I32, [(size(x, i), i = rank(x), 1, -1)])
    end function data_int32

    function data_int64(x) result(array)
        integer(int64), target, intent(in) :: x(..)
        type(iso_data_array) :: array
        integer :: i
        array = rows_of(c_loc(x), is_contiguous(x), ISO_I64, [(size(x, i), i = rank(x), 1, -1)])
    end function data_int64

    ! Bytes from 0 to 255.
    function data_int8(x) result(array)
        integer(int8), target, intent(in) :: x(..)
        type(iso_data_array) :: array
        integer :: i
        array = rows_of(c_loc(x), is_contiguous(x), ISO_U8, [(size(x, i), i = rank(x), 1, -1)])
    end function data_int8

    ! extents: those of C, from the last one of Fortran to the first.
    function rows_of(data, contiguous, dtype, extents) result(array)
        type(c_ptr), intent(in) :: data
        logical, intent(in) :: contiguous
        integer(c_int), intent(in) :: dtype
        integer, intent(in) :: extents(:)
        type(iso_data_array) :: array
        array%data = data
        array%dtype = dtype
        array%shape = shape_of(extents)
        if (.not. contiguous) array%shape%rank = -1
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

    ! A text that the program may use for ever. Equal ones are stored once.
    function lasting(text) result(address)
        character(*), intent(in) :: text
        type(c_ptr) :: address
        type(lasting_text), pointer :: known
        known => lasting_texts
        do while (associated(known))
            if (known%text == text) exit
            known => known%next
        end do
        if (.not. associated(known)) then
            allocate(known)
            known%text = text
            known%next => lasting_texts
            lasting_texts => known
            call set_text(known%address, text, known%storage)
        end if
        address = known%address
    end function lasting

    ! ---- arrays that have more elements than an option ----

    function too_many(what, count, most) result(text)
        character(*), intent(in) :: what
        integer, intent(in) :: count, most
        character(:), allocatable :: text
        character(len(what) + 80) :: line
        write (line, "(a, ' has ', i0, ' elements; at most ', i0, ' are possible')") what, count, most
        text = trim(line)
    end function too_many

    function room_for(what, count, most) result(status)
        character(*), intent(in) :: what
        integer, intent(in) :: count, most
        integer(c_int) :: status
        status = ISO_OK
        if (count > most) status = iso_error_text(ISO_INVALID, too_many(what, count, most))
    end function room_for

    ! The error is the graph's, as those of layers.
    function lacks_room(x, what, count, most) result(lacks)
        type(iso_tensor), intent(in) :: x
        character(*), intent(in) :: what
        integer, intent(in) :: count, most
        logical :: lacks
        lacks = count > most
        if (lacks) call c_iso_graph_fail_text(iso_tensor_graph(x), too_many(what, count, most) // c_null_char)
    end function lacks_room

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
