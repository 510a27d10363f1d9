#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization
  internal import WireProtocol

  /// What the daemon asks the program, in the words of the delegate protocols.
  extension AttachedSession {
    /// Called on the connection's thread; again after each reconnect, as long as nobody answered.
    func asked(_ snapshot: TaskSnapshot) {
      guard let question = snapshot.question else { return }
      let task = known(snapshot)
      let isNew = task.fields.withLock { fields in
        defer { fields.askedQuestion = question.number }
        return fields.askedQuestion != question.number
      }
      // The first asking is in the delegate's hands, or its answer is on its way.
      guard isNew else { return }
      post(task) { owner, delegates in
        switch question.kind {
        case "challenge": self.challenge(task, snapshot, question, owner, delegates)
        case "delayedRequest": self.beginDelayed(task, snapshot, question, owner, delegates)
        // Apple's interface has no word for it.
        default: self.answer(task, question, "proceed")
        }
      }
    }

    private func answer(
      _ task: URLSessionTask, _ question: WireQuestion, _ word: String,
      _ fill: (inout TaskAnswerParameters) -> Void = { _ in }
    ) {
      guard let id = task.fields.withLock({ $0.id }) else { return }
      var parameters = TaskAnswerParameters(id: id, question: question.number, answer: word)
      fill(&parameters)
      send(.taskAnswer(parameters))
    }

    // MARK: Delayed requests

    private func beginDelayed(
      _ task: URLSessionTask, _ snapshot: TaskSnapshot, _ question: WireQuestion, _ owner: URLSession,
      _ delegates: Delegates
    ) {
      guard let delegate = delegates.task, let request = task.currentRequest ?? task.originalRequest else {
        return answer(task, question, "proceed")
      }
      let once = Once()
      delegate.urlSession(owner, task: task, willBeginDelayedRequest: request) { disposition, replacement in
        guard once.isFirst() else { return }
        switch disposition {
        case .continueLoading: self.answer(task, question, "proceed")
        case .cancel: self.answer(task, question, "cancel")
        case .useNewRequest: self.useNewRequest(replacement ?? request, for: task, question)
        }
      }
    }

    /// What the original says of networks that may be used stays (NSURLSession.h); so do its method and body, which the
    /// daemon keeps since the task was made.
    private func useNewRequest(_ request: URLRequest, for task: URLSessionTask, _ question: WireQuestion) {
      guard let url = request.url else { return answer(task, question, "proceed") }
      if request.httpMethod != task.originalRequest?.httpMethod {
        Diagnostics.log("a delayed request keeps the method that its task was made with")
      }
      let headers = RequestTranslation.headers(of: request, url: url, configuration: configuration)
      task.fields.withLock { $0.currentRequest = request }
      answer(task, question, "request") {
        $0.url = url.absoluteString
        $0.headers = headers
        $0.replacesHeaders = true
      }
    }

    // MARK: Challenges

    private func challenge(
      _ task: URLSessionTask, _ snapshot: TaskSnapshot, _ question: WireQuestion, _ owner: URLSession,
      _ delegates: Delegates
    ) {
      guard let challenge = ChallengeTranslation.challenge(of: question),
        let posed = PosedChallenge(
          challenge, of: task.currentRequest?.url ?? task.originalRequest?.url, configuration)
      else { return answer(task, question, "proceed") }
      posed.put(snapshot.response.flatMap(RequestTranslation.response), task, owner, delegates) { answer in
        switch answer {
        case .credential(let user, let password, let given):
          // The process may be gone when it has been shown.
          posed.keep(given)
          self.answer(task, question, "credential") { $0.credential = WireCredential(user: user, password: password) }
        case .token(let token):
          self.answer(task, question, "request") {
            $0.headers = [WireHeader(name: "Authorization", value: "Bearer \(token)")]
          }
        case .identity(let identity): self.answer(task, question, "tls") { $0.tls = WireTLS(identity) }
        case .trust(let certificate): self.answer(task, question, "trust") { $0.certificate = certificate }
        case .proceed: self.answer(task, question, "proceed")
        case .cancel:
          task.fields.withLock { $0.isCanceling = true }
          self.answer(task, question, "cancel")
        }
      }
    }
  }
#endif
