#if !canImport(Darwin)
  internal import FerryClient
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization
  internal import TransferCore
  internal import WireProtocol

  /// Resume data: the daemon keeps the part, and the program holds a ticket that names it.
  extension AttachedSession {
    /// Apple's text of `URLError.cannotWriteToFile` for what is no resume data.
    static let invalidResumeData =
      "Invalid resume data for background download. Background downloads must use http or https and must download to "
      + "an accessible file."

    /// `handler` runs on the session's queue: with nil where nothing can be continued, and where the task had ended.
    func cancelKeepingPart(_ task: URLSessionTask, _ handler: @escaping @Sendable (Data?) -> Void) {
      let (isFirst, id) = task.fields.withLock { fields -> (Bool, Int64?) in
        guard !fields.isCompleted, !fields.isCanceling else { return (false, nil) }
        fields.isCanceling = true
        return (true, fields.id)
      }
      guard isFirst else { return queue.append { handler(nil) } }
      guard let id, let line = registry.line else {
        queue.append { handler(nil) }
        return complete(task, with: FailureTranslation.cancellation(url: task.originalRequest?.url))
      }
      let request = ClientRequest.taskCancel(TaskIdentifiersParameters(ids: [id], producesResumeData: true))
      line.ask(request, returning: TaskIdentifiersResult.self) { result in
        var kept: WireKeptPart?
        switch result {
        case .success(let answer): kept = answer.kept?.first { $0.id == id }
        case .failure(let failure):
          Diagnostics.log("no resume data of task \(task.taskIdentifier): \(failure.message)")
        }
        let data = kept.flatMap { ResumeTicket.data(token: $0.resumeToken, received: $0.received) }
        self.queue.append { handler(data) }
      }
    }

    /// A download that goes on from a kept part; one that fails with `URLError.cannotWriteToFile` when the data is not
    /// ours, is damaged, or was used before. An upload fails: nothing makes resume data of one.
    func makeTask<Made: URLSessionTask>(_ make: Maker<Made>, _ kind: TaskKind, resuming data: Data) -> Made {
      guard kind == .download else {
        let refusal = FailureTranslation.make(.cannotOpenFile, "Invalid resume data for background upload.")
        return makeTask(make, kind, nil, refusal: refusal)
      }
      let ticket: ResumeTicket
      do throws(ResumeTicket.Fault) {
        ticket = try ResumeTicket([UInt8](data))
      } catch {
        Diagnostics.log("resume data is refused: \(error.words)")
        return makeTask(make, kind, nil, refusal: Self.refusal(of: error.words))
      }
      // Only what the configuration says is taken of this; the part knows what is asked of whom.
      let request = URL(string: "http://resumed.invalid/").map { URLRequest(url: $0) }
      return makeTask(make, kind, request, resumeToken: ticket.token.description)
    }

    static func refusal(of reason: String) -> URLError {
      FailureTranslation.make(
        .cannotWriteToFile, invalidResumeData, also: [NSLocalizedFailureReasonErrorKey: reason])
    }

    /// The object of a task that goes on from a kept part: what it asks for, only the daemon can tell.
    func resuming<Made: URLSessionTask>(
      _ make: Maker<Made>, id: Int64, number: Int64, through line: any DaemonLine
    ) -> Made {
      var fields = TaskFields(number: Int(clamping: number))
      if let shown = try? line.call(.taskShow(TaskShowParameters(id: id)), returning: TaskShowResult.self) {
        fields = TaskFields(shown.task)
      }
      fields.id = id
      let task = make(self, fields)
      remember(task, as: id)
      return task
    }

    // MARK: Metrics

    /// Told once, between the file and the task's last message.
    func handOverMetrics(
      of task: URLSessionTask, _ snapshot: TaskSnapshot, _ owner: URLSession, _ delegates: Delegates
    ) {
      guard let delegate = delegates.task, !task.fields.withLock({ $0.isCompleted }) else { return }
      let start = Date(timeIntervalSince1970: Double(snapshot.createdMilliseconds) / 1000)
      let end = snapshot.finishedMilliseconds.map { Date(timeIntervalSince1970: Double($0) / 1000) } ?? start
      let metrics = URLSessionTaskMetrics(snapshot.metrics ?? WireMetrics(), of: task, from: start, to: end)
      delegate.urlSession(owner, task: task, didFinishCollecting: metrics)
    }
  }
#endif
