! What twin.c does, in Fortran; both print the same.
module losses
    use, intrinsic :: iso_c_binding, only: c_double
    use isogrid
    implicit none
contains
    ! Each row's squares, weighted by the target.
    function weighted(y_true, y_pred) bind(C) result(loss)
        type(iso_tensor), value :: y_true, y_pred
        type(iso_tensor) :: loss, largest
        largest = iso_affine(iso_reduce_max(y_true, [1], 1, .true.), 0.0_c_double, 0.5_c_double)
        loss = iso_reduce_mean(iso_multiply(iso_add(y_true, largest), iso_square(iso_subtract(y_true, y_pred))), &
            [1], 1, .false.)
    end function weighted
end module losses

program twin
    use, intrinsic :: iso_c_binding
    use isogrid
    use losses
    implicit none
    integer, parameter :: rows = 70
    type(iso_context) :: ctx
    real(c_float), target :: images(2, 6, 8, rows), targets(3, rows)
    real(c_float), target :: predicted(3, rows)
    integer :: status, code, i, j, k, n

    do n = 1, rows
        do i = 1, 8
            do j = 1, 6
                do k = 1, 2
                    images(k, j, i, n) = real(mod(7 * n + 11 * i * k + 5 * j, 64)) / 64
                end do
            end do
        end do
        targets(:, n) = real(mod(n * [3, 5, 7], 16)) / 16
    end do
    status = iso_init(ctx)
    if (status == ISO_OK) status = train(images, targets)
    code = iso_finish(ctx, status)
    if (code /= 0) stop code, quiet=.true.

contains

    ! Arrays of assumed shape, which the compiler must not copy.
    function train(images, targets) result(status)
        real(c_float), target, intent(in) :: images(:, :, :, :), targets(:, :)
        integer :: status
        type(iso_mesh) :: mesh
        type(iso_layout_map) :: map
        type(iso_distribution) :: distribution
        type(iso_dataset) :: data
        type(iso_graph) :: graph
        type(iso_tensor) :: x, y
        type(iso_model) :: model
        type(iso_callback) :: callbacks(1)
        type(iso_initializer) :: small
        type(iso_fingerprint) :: fingerprint
        real(c_double), target :: loss, metrics(2)
        real(c_double), allocatable :: bias(:)

        status = iso_mesh_create(ctx, "data=4,model=2", mesh)
        if (status == ISO_OK) status = iso_layout_map_create(mesh, map)
        if (status == ISO_OK) status = iso_layout_map_set(map, "hidden/kernel ", "-, model")
        if (status == ISO_OK) status = iso_model_parallel_create(map, distribution, batch_axis="data")
        if (status == ISO_OK) status = iso_dataset_arrays(ctx, data, x=iso_data(images), y=iso_data(targets))
        if (status == ISO_OK) status = iso_dataset_batch(data, 16)
        if (status /= ISO_OK) return

        small%kind = ISO_INIT_RANDOM_UNIFORM
        small%low = -0.1_c_double
        small%high = 0.1_c_double
        graph = iso_graph_create(ctx)
        x = iso_input(graph, "images", ISO_F32, [8, 6, 2])
        y = iso_conv2d(x, 4, 3, padding=ISO_SAME, strides_hw=[2, 1], activation=ISO_ACTIVATION_RELU, name="conv")
        y = iso_layer_norm(iso_concatenate([y, iso_tanh(y)]), axis=[2, -1])
        y = iso_dense(iso_flatten(y), 5, activation=ISO_ACTIVATION_TANH, kernel_initializer=small, name="hidden")
        y = iso_dense(y, 3, no_bias=.true., kernel_l2=1e-3_c_double)
        model = iso_model_create(graph, x, y)
        status = iso_compile(model, optimizer=iso_adamw(learning_rate=1e-2_c_double, &
            beta_1=real(ISO_ZERO, c_double), weight_decay=0.5_c_double, &
            no_decay="hidden/kernel|.*bias", clip_norm=0.5_c_double), &
            loss_function=c_funloc(weighted), metrics=[ISO_METRIC_MSE, ISO_METRIC_MAE], &
            metric_names=[character(12) :: "squares", "differences"], distribution=distribution)
        callbacks(1) = iso_terminate_on_nan()
        if (status == ISO_OK) status = iso_fit(model, data, epochs=3, callbacks=callbacks)
        if (status == ISO_OK) status = iso_evaluate(model, data, loss=loss, metrics=metrics)
        if (status == ISO_OK) status = iso_predict(model, data, outputs=[c_loc(predicted)])
        if (status == ISO_OK) status = iso_graph_fingerprint(graph, fingerprint)
        allocate(bias(5))
        if (status == ISO_OK) status = iso_variable_read(iso_model_variable(model, "hidden/bias"), bias, 5)
        if (status == ISO_OK .and. iso_is_chief(ctx)) then
            print "(a, 8(1x, i0))", "shape", iso_tensor_shape(x), iso_variable_shape(iso_model_variable(model, "conv/kernel"))
            print "(3a)", iso_model_value_name(model, 1), " ", iso_model_value_name(model, 2)
            print "(a, 3(1x, f14.10))", "values", loss, metrics
            print "(a, 5(1x, f14.10))", "bias", bias
            print "(a, 3(1x, f14.10))", "first", predicted(:, 1)
            print "(a, 3(1x, f14.10))", "last", predicted(:, rows)
            print "(a, 2(1x, z16.16))", "fingerprint", fingerprint%word
        end if
        if (status == ISO_OK .and. iso_layout_map_set(map, "a", "b") /= ISO_INVALID) status = ISO_FAILED
        if (status == ISO_OK .and. iso_is_chief(ctx)) print "(a)", iso_error_message()
        if (status == ISO_OK) call try_wrong_calls(model)
        call iso_model_destroy(model)
        call iso_dataset_destroy(data)
        call iso_distribution_destroy(distribution)
        call iso_layout_map_destroy(map)
        call iso_mesh_destroy(mesh)
    end function train

    ! What C refuses when it compiles, and what only Fortran has.
    subroutine try_wrong_calls(model)
        type(iso_model), intent(in) :: model
        type(iso_dataset) :: data
        type(iso_graph) :: graph
        type(iso_tensor) :: x
        call expect(iso_dataset_arrays(ctx, data, x=iso_data(images(:, :, ::2, :))), "a section of an array")
        call expect(iso_compile(model, metrics=[(ISO_METRIC_MSE, i = 1, 40)]), "metrics has 40 elements")
        graph = iso_graph_create(ctx)
        x = iso_input(graph, "x", ISO_F32, [8, 6, 2])
        x = iso_conv2d(x, 4, 3, strides_hw=[2, 1, 1])
        call expect(iso_graph_error(graph), "iso_conv2d: strides_hw has 3 elements")
        call iso_graph_destroy(graph)
        if (iso_option(ctx, "nothing", "else") /= "else") error stop "iso_option"
    end subroutine try_wrong_calls

    subroutine expect(status, text)
        integer, intent(in) :: status
        character(*), intent(in) :: text
        if (status == ISO_INVALID .and. index(iso_error_message(), text) > 0) return
        print *, "expected: ", text, "; got: ", status, iso_error_message()
        error stop
    end subroutine expect
end program twin
