! A simulation in Fortran that trains in place: its ranks hold unequal shares of the cells, and the network learns from all
! of them, on the simulation's own communicator. Then each rank asks the network about its own cells.
program simulation
    use mpi
    use, intrinsic :: iso_c_binding, only: c_double, c_float, c_loc
    use isogrid
    implicit none

    integer, parameter :: cells = 1000, batch = 64
    type(iso_context) :: ctx
    real(c_float), allocatable, target :: states(:, :), fluxes(:, :)
    integer :: communicator, rank, ranks, provided, error, status, code

    call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, error) ! slots run on threads, MPI on this one
    call MPI_Comm_dup(MPI_COMM_WORLD, communicator, error)
    call MPI_Comm_rank(communicator, rank, error)
    call MPI_Comm_size(communicator, ranks, error)
    call make_cells(cells * rank**2 / ranks**2, cells * (rank + 1)**2 / ranks**2) ! few on the first rank, many on the last

    status = iso_init_on(communicator, ctx)
    if (status == ISO_OK) status = train()
    code = iso_finish(ctx, status)
    call MPI_Comm_free(communicator, error)
    call MPI_Finalize(error)
    if (code /= 0) stop code, quiet=.true.

contains

    ! The cells [begin, end): density, velocity and temperature, and the flux that is to be learnt.
    subroutine make_cells(begin, end)
        integer, intent(in) :: begin, end
        integer :: i
        allocate(states(3, end - begin), fluxes(1, end - begin))
        do i = 1, end - begin
            states(:, i) = real(mod((begin + i) * [37, 59, 83], 257)) / 257
            fluxes(1, i) = states(1, i) * states(2, i) + sin(3 * states(3, i))
        end do
    end subroutine make_cells

    function train() result(status)
        integer :: status
        type(iso_dataset) :: data, asked
        type(iso_graph) :: graph
        type(iso_tensor) :: x, y
        type(iso_model) :: model
        real(c_double), target :: loss
        real(c_float), target :: learnt(1, cells)

        ! This rank's cells, possibly none; the data set has those of all ranks. The last dimension of an array is the rows.
        status = iso_dataset_arrays(ctx, data, local=.true., x=iso_data(states), y=iso_data(fluxes))
        if (status == ISO_OK) status = iso_dataset_shuffle(data, 0)
        if (status == ISO_OK) status = iso_dataset_batch(data, batch)

        graph = iso_graph_create(ctx)
        x = iso_input(graph, "state", ISO_F32, [3])
        y = iso_dense(iso_dense(x, 64, activation=ISO_ACTIVATION_TANH), 1)
        model = iso_model_create(graph, x, y)
        if (status == ISO_OK) status = iso_compile(model, optimizer=iso_adam(3e-2_c_double), loss=ISO_LOSS_MSE)
        if (status == ISO_OK) status = iso_fit(model, data, epochs=60)
        if (status == ISO_OK) status = iso_evaluate(model, data, loss=loss)
        if (status == ISO_OK .and. rank == 0) print "(a, f8.5)", "loss: ", loss

        ! Every rank gets the network's fluxes of all cells, in the order of the ranks.
        if (status == ISO_OK) status = iso_dataset_arrays(ctx, asked, local=.true., x=iso_data(states))
        if (status == ISO_OK) status = iso_dataset_batch(asked, 256)
        if (status == ISO_OK) status = iso_predict(model, asked, outputs=[c_loc(learnt)])
        if (status == ISO_OK .and. rank == ranks - 1 .and. size(fluxes) > 0) &
            print "(a, f8.5)", "largest error in the cells of the last rank: ", &
                maxval(abs(learnt(:, cells - size(fluxes) + 1:) - fluxes))

        call iso_model_destroy(model)
        call iso_dataset_destroy(asked)
        call iso_dataset_destroy(data)
    end function train
end program simulation
