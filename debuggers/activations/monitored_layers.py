"""Selects the layers whose outputs are measured, and selects again when modules are replaced."""

from debuggers.activations.recording import LayerRecorder, Recording
from debuggers.activations.unit_activity import choose_layers
from debuggers.errors import LayerNotFoundError
from debuggers.instrumentation.module_changes import ModuleMembers
from debuggers.instrumentation.module_selection import Selection, Selector, as_selectors, select_modules
from debuggers.torch_import import torch


class MonitoredLayers:
    """The modules of a model that a selection currently matches.

    Attributes:
        chosen: The names of the chosen modules.
        aliases: The other names of modules that have several.
        opaque: The names of those that run compiled, where nothing shows their calls.
        recorders: One for each of the others.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        modules: Selection | None,
        unit_activity: bool | Selection,
        recording: Recording,
    ) -> None:
        """Chooses; the arguments mean what they do for ``ActivationMonitor``.

        Raises:
            LayerNotFoundError: When a selector matches nothing.
        """
        self._model, self._modules, self._unit_activity = model, modules, unit_activity
        self._recording = recording
        self.recorders: list[LayerRecorder] = []
        self._choose(modules, unit_activity)

    def follow(self) -> list[str]:
        """Chooses anew if modules were added, exchanged or removed, and returns the names that mean others now.

        A selector that matches nothing any more chooses nothing.
        """
        if not self._members.have_changed():
            return []
        before = {recorder.name: recorder.module for recorder in self.recorders}
        modules, unit_activity = self._modules, self._unit_activity
        self._choose(
            None if modules is None else self._still_matching(modules),
            unit_activity if isinstance(unit_activity, bool) else self._still_matching(unit_activity),
        )
        now = {recorder.name: recorder.module for recorder in self.recorders}
        return [name for name, module in before.items() if now.get(name) is not module]

    def _choose(self, modules: Selection | None, unit_activity: bool | Selection) -> None:
        self._members = ModuleMembers(self._model)
        entries, counted = choose_layers(self._model, modules, unit_activity)
        known = {(recorder.name, id(recorder.module)): recorder for recorder in self.recorders}
        self.chosen = [entry.name for entry in entries]
        self.aliases = {entry.name: entry.aliases for entry in entries if entry.aliases}
        self.opaque = [entry.name for entry in entries if entry.opaque]
        self.recorders = [
            known.get((entry.name, id(entry.module)))
            or LayerRecorder(entry, self._recording, counts_units=id(entry.module) in counted)
            for entry in entries
            if not entry.opaque
        ]

    def _still_matching(self, selection: Selection) -> list[Selector]:
        return [selector for selector in as_selectors(selection) if self._matches(selector)]

    def _matches(self, selector: Selector) -> bool:
        try:
            return bool(select_modules(self._model, selector))
        except LayerNotFoundError:
            return False
