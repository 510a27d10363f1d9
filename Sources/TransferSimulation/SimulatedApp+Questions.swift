import TransferCore

extension SimulatedApp {
  /// Answers soon, late, twice, never, or after its task has ended.
  func answerLater(_ id: TaskID, _ question: Question, _ number: Int64) {
    if world.strikes(.missingAnswer, perMille: 150) { return }
    let isLate = world.strikes(.lateAnswer, perMille: 200)
    later(isLate ? 5000...300_000 : 0...800) { app in
      let answer = app.makeAnswer(question)
      app.ask(.answer(id, question: number, answer))
      if app.world.strikes(.doubleAnswer, perMille: 150) {
        app.ask(.answer(id, question: number, app.makeAnswer(question)))
      }
    }
  }

  private func makeAnswer(_ question: Question) -> TransferCore.Answer {
    switch world.dice.below(10) {
    case 0: return .cancel
    case 1, 2: return .proceed
    default: break
    }
    switch question {
    case .challenge(let challenge):
      if challenge.takesPassword { return .credential(user: "ann", password: Secret("secret")) }
      return .request(RequestChange(headers: [("Authorization", "Bearer fresh")]))
    case .freshRequest: return .request(RequestChange(headers: [("Authorization", "Bearer fresh")]))
    case .delayedRequest:
      return world.dice.below(2) == 0 ? .proceed : .request(RequestChange(headers: [("X-Fresh", "1")]))
    }
  }
}
