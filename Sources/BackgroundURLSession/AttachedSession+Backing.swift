#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization
  internal import WireProtocol

  /// What a program does to its tasks, in the words of the protocol.
  extension AttachedSession: SessionBacking {
    var takesHandlers: Bool { false }

    func makeTask<Made: URLSessionTask>(_ make: Maker<Made>, _ order: TaskOrder) -> Made {
      if let data = order.resumeData { return makeTask(make, order.kind, resuming: data) }
      if order.body != nil { Refusal.uploadFromMemory() }
      if order.isStreamed { Refusal.uploadFromStream() }
      return makeTask(make, order.kind, order.request, source: order.source)
    }

    func run(_ task: URLSessionTask) {
      let (id, refusal) = task.fields.withLock { ($0.id, $0.refusal) }
      if let id { send(.taskResume(TaskIdentifiersParameters(ids: [id]))) }
      if let refusal { complete(task, with: refusal) }
    }

    func pause(_ task: URLSessionTask) {
      if let id = task.fields.withLock({ $0.id }) { send(.taskSuspend(TaskIdentifiersParameters(ids: [id]))) }
    }

    func cancel(_ task: URLSessionTask) {
      if let id = task.fields.withLock({ $0.id }) {
        send(.taskCancel(TaskIdentifiersParameters(ids: [id])))
      } else {
        complete(task, with: FailureTranslation.cancellation(url: task.originalRequest?.url))
      }
    }

    func cancel(_ task: URLSessionTask, byProducingResumeData handler: @escaping @Sendable (Data?) -> Void) {
      guard task is URLSessionDownloadTask else {
        task.cancel()
        return queue.append { handler(nil) }
      }
      cancelKeepingPart(task, handler)
    }

    func update(_ task: URLSessionTask, _ change: TaskUpdate) {
      guard let id = task.fields.withLock({ $0.id }) else { return }
      var parameters = TaskUpdateParameters(id: id)
      switch change {
      case .description(let text):
        guard (text ?? "").utf8.count <= WireLimits.descriptionBytes else {
          return Diagnostics.log("the description of task \(task.taskIdentifier) is too long to be kept by the daemon")
        }
        parameters.description = text
        if text == nil { parameters.clear = ["description"] }
      case .priority(let value): parameters.priority = Double(value)
      case .earliestBegin(let date):
        parameters.earliestBeginMilliseconds = date.map(RequestTranslation.milliseconds(of:))
        if date == nil { parameters.clear = ["earliestBegin"] }
      case .clientExpectsToSend(let count):
        parameters.clientExpectsToSend = count
        if count == nil { parameters.clear = ["clientExpectsToSend"] }
      case .clientExpectsToReceive(let count):
        parameters.clientExpectsToReceive = count
        if count == nil { parameters.clear = ["clientExpectsToReceive"] }
      }
      send(.taskUpdate(parameters))
    }

    func convert(_ task: URLSessionTask, _ disposition: URLSession.ResponseDisposition) {
      Diagnostics.log("a background session cannot turn a data task into another task; it is cancelled")
      task.cancel()
    }
  }
#endif
