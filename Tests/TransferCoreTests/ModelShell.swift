@testable import TransferCore

/// What a shell owes the core after the effects that it was given: answers to questions, ends of attempts.
struct ModelShell: Hashable {
  struct Preparation: Hashable {
    var token: RequestToken
    var orders: [PrepareOrder]
  }

  struct Wire: Hashable {
    var order: AttemptOrder
    var verdict: ResponseVerdict?
    /// The body may reach the part file.
    var isReleased = false
  }

  var loads: [TaskID] = []
  var preparations: [Preparation] = []
  var opening: [AttemptID] = []
  var wires: [Wire] = []
  var finalizing: [FinalizeOrder] = []
  /// Offered to the client that is attached now, and not yet acknowledged.
  var offers: [DeliveryRecord] = []
  var removedFiles: [String] = []
  /// Questions put before the client that is attached now.
  var questions: [TaskID] = []

  mutating func run(_ effects: [Effect]) { for effect in effects { run(effect) } }

  mutating func run(_ effect: Effect) {
    switch effect {
    case .loadDetails(let id): if !loads.contains(id) { loads.append(id) }
    case .prepare(let token, let orders): preparations.append(Preparation(token: token, orders: orders))
    case .openFiles(let attempt, _): opening.append(attempt)
    case .begin(let order, _): wires.append(Wire(order: order))
    case .releaseBody(let attempt):
      for index in wires.indices where wires[index].order.attempt == attempt { wires[index].isReleased = true }
    case .stop(let attempt):
      opening.removeAll { $0 == attempt }
      wires.removeAll { $0.order.attempt == attempt }
    case .finalize(let order): finalizing.append(order)
    case .offer(_, let record): offers.append(record)
    case .ask(_, let id): if !questions.contains(id) { questions.append(id) }
    case .removeFiles(let paths): removedFiles += paths
    case .reply, .announce, .endSession, .discardPreparation, .foreground, .app: break
    }
  }

  /// The client went: what it was offered is offered anew to the next.
  mutating func forgetOffers(of session: SessionID) { offers.removeAll { $0.session == session } }

  /// Nothing is owed twice or to nobody, and every task that goes on by itself is owed something.
  func violations(_ core: Core) -> [String] {
    var found: [String] = []
    for (id, work) in core.active.sorted(by: { $0.key < $1.key }) {
      let isOwed =
        switch work.phase {
        case .loading: loads.contains(id)
        case .opening: opening.filter { $0 == work.attempt }.count == 1
        case .onTheWire: wires.filter { $0.order.attempt == work.attempt }.count == 1
        // Its client decides.
        case .deciding: true
        }
      if !isOwed { found.append("Task \(id) waits in phase \(work.phase) for what nobody does.") }
    }
    let attempts = opening + wires.map(\.order.attempt)
    for attempt in attempts where core.owner(attempt) == nil {
      found.append("Attempt \(attempt) goes on, and no task owns it.")
    }
    if attempts.count != Set(attempts).count { found.append("An attempt goes on twice.") }
    let timed = Set(core.timers.elements.map(\.subject))
    core.tasks.forEach { cell in
      let id = cell.entry.id
      let orders = finalizing.filter { $0.task == id }.count
      if orders > 1 { found.append("Task \(id) is finalized twice at once.") }
      guard cell.entry.state == .finalizing else { return }
      let waitsForDetails = core.unreconciled.contains(id) && loads.contains(id)
      if orders == 0, !timed.contains(.finalizing(id)), !waitsForDetails {
        found.append("Task \(id) is finalizing, and nobody does it.")
      }
    }
    for id in core.heldCommands.awaited where !loads.contains(id) {
      found.append("A command waits for details that nobody loads.")
    }
    if core.intakes.count != preparations.count { found.append("A batch waits for files that nobody looks at.") }
    return found
  }
}
