import DeviceConditions
import LinuxSystem
import TransferCore

/// The networks that transfers must not use. Whether there is a network at all is what an attempt finds out: it costs
/// nothing while all is well, and transfers that may use any network are all that most programs have.
extension TransferLoop {
  /// Nothing is known yet of what a transfer may forbid itself.
  func startConditions() { handle(.conditionsChanged(Conditions(pending: .all.subtracting(.network)))) }

  /// Opens the sources of what some transfer has come to require.
  func watchConditions() {
    let demanded = core.demanded.subtracting(.network)
    guard demanded != watched else { return }
    watched = demanded
    if need == nil {
      need = surroundings.watch { [mailbox] facts in mailbox.post(.observed(facts)) }
      // Nobody can tell, which counts as good.
      if need == nil { observed(DeviceFacts()) }
    }
    need?(demanded)
  }

  func observed(_ facts: DeviceFacts) {
    var conditions = facts.conditions
    conditions.pending.remove(.network)
    guard conditions != core.conditions else { return }
    handle(.conditionsChanged(conditions))
  }
}
