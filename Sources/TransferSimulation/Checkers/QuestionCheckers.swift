import TransferCore

/// A task that asks keeps its bytes: the attempt that follows continues at least what was durable when it began to ask.
final class AskingKeepsBytesChecker: Checker {
  let name = "asking keeps bytes"
  private var held: [TaskID: Int64] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .committed(let changes): for change in changes { take(change) }
    case .began(let order, _):
      guard let offset = held.removeValue(forKey: order.task) else { return nil }
      let continued = order.judgement.resume?.offset ?? 0
      if continued < offset { return "task \(order.task) asked with \(offset) bytes, and goes on with \(continued)" }
    default: break
    }
    return nil
  }

  private func take(_ change: StoreChange) {
    switch change {
    case .updateTask(let entry, let progress):
      if entry.state.isFinished {
        held[entry.id] = nil
      } else if entry.state == .asking, let offset = progress?.resumePoint?.offset, offset > 0 {
        held[entry.id] = offset
      }
    case .removeTask(let id): held[id] = nil
    case .putSession, .removeSession, .addTask, .forgetSecrets, .addDelivery, .removeDelivery, .addKeptPart,
      .removeKeptPart, .app:
      break
    }
  }
}

/// What an app gave to answer a question goes to the place that asked, and is forgotten with the task's end.
final class CredentialChecker: Checker {
  let name = "credentials stay where they belong"

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .began(let order, _):
      if let credential = order.credential, credential.origin != Origin(url: order.request.url)?.description {
        return "task \(order.task) shows \(order.request.url) what belongs to \(credential.origin)"
      }
    case .committed(let changes):
      for case .updateTask(let entry, let progress?) in changes
      where entry.state.isFinished && (progress.access != nil || progress.question != nil) {
        return "task \(entry.id) has finished, and keeps its credentials or its question"
      }
    default: break
    }
    return nil
  }
}
