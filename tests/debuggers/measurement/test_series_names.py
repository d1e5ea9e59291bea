"""Names of series: one section a statistic, one chart a tensor."""

from debuggers.measurement.series_names import histogram_names, norm_names, statistic_names


def test_a_statistic_is_a_section_and_a_tensor_its_chart():
    tensors = ("fc1.weight", "total")
    assert statistic_names("gradients", "norm", tensors) == ("gradient_norm/fc1.weight", "gradient_norm/total")
    assert statistic_names("updates", "ratio", tensors)[0] == "update_ratio/fc1.weight"
    assert statistic_names("activation_gradients", "norm", ("fc1",)) == ("activation_gradient_norm/fc1",)
    assert statistic_names("optimizer/exp_avg", "norm", ("fc1",)) == ("optimizer_exp_avg_norm/fc1",)
    assert histogram_names("weights", tensors) == ("weights/fc1.weight", "weights/total")


def test_no_tensor_takes_the_name_of_the_total():
    names = norm_names("gradients", ("total", "norm", "gradients", "total_norm"))
    assert names[-1] == "total_norm/gradients"
    assert len({*names, *histogram_names("gradients", ("total", "norm", "total_norm"))}) == 8


def test_the_names_of_a_step_are_the_same_object_as_those_of_the_last():
    assert norm_names("gradients", ("a", "b")) is norm_names("gradients", ("a", "b"))
