#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization
  internal import WireProtocol

  /// What the daemon tells, in the words of the delegate protocols. Called in order on the connection's thread.
  extension AttachedSession {
    /// Parts of a body that was spooled are handed over in this size: a callback's memory stays small.
    static let bodyPartBytes = 64 * 1024

    func progressed(_ task: URLSessionTask, _ notice: TaskProgressNotice) {
      let mustQueue = task.fields.withLock { fields in
        fields.received = notice.received
        fields.sent = notice.sent
        if let expected = notice.expected { fields.expectedToReceive = expected }
        defer { fields.isProgressQueued = true }
        return !fields.isProgressQueued
      }
      guard mustQueue else { return }
      post(task) { self.reportCounts(of: task, $0, $1) }
    }

    /// Results come as deliveries, so the end of a task that this process does not know is none of its business yet.
    func changed(_ snapshot: TaskSnapshot) {
      if TaskFields.isFinal(snapshot.state), task(snapshot.id) == nil { return }
      _ = known(snapshot)
    }

    func resumed(_ task: URLSessionTask, _ notice: TaskResumedNotice) {
      task.fields.withLock {
        $0.received = notice.offset
        if let expected = notice.expected { $0.expectedToReceive = expected }
      }
      post(task) { self.reportResumption(of: task, at: notice.offset, $0, $1) }
    }

    func responded(_ task: URLSessionTask, _ wire: WireResponse) {
      let response = RequestTranslation.response(wire)
      let early = task.fields.withLock { fields in
        fields.response = response ?? fields.response
        fields.hasQueuedResponse = true
        defer { fields.earlyBytes = [] }
        return fields.earlyBytes
      }
      // Only data tasks ask; uploads of background sessions do not, as on Apple's systems.
      guard type(of: task) == URLSessionDataTask.self, let dataTask = task as? URLSessionDataTask else { return }
      post(task) { owner, delegates in
        guard let delegate = delegates.data, let response else { return }
        task.fields.withLock { $0.isAwaitingDisposition = true }
        delegate.urlSession(owner, dataTask: dataTask, didReceive: response) { self.decide($0, for: task) }
      }
      for bytes in early { handOver(bytes, of: dataTask) }
    }

    func received(_ task: URLSessionTask, _ base64: String) {
      guard let dataTask = task as? URLSessionDataTask else { return }
      guard let bytes = Data(base64Encoded: base64) else {
        return Diagnostics.log("ferryd sent body bytes that are no base 64; task \(task.taskIdentifier) lacks them")
      }
      let isEarly = task.fields.withLock { fields in
        guard !fields.hasQueuedResponse else { return false }
        fields.earlyBytes.append(bytes)
        return true
      }
      if !isEarly { handOver(bytes, of: dataTask) }
    }

    private func handOver(_ bytes: Data, of task: URLSessionDataTask) {
      post(task) { owner, delegates in
        guard !task.fields.withLock({ $0.discardsBody }) else { return }
        delegates.data?.urlSession(owner, dataTask: task, didReceive: bytes)
      }
    }

    // MARK: Deliveries

    /// A result. It is acknowledged after the delegate returned, so that one who dies in between is offered it again.
    func offered(_ notice: DeliveryNotice) {
      guard takes(notice.number, of: notice.session) else { return }
      let number = notice.number
      let session = notice.session
      guard let snapshot = notice.task else {
        return post { owner, delegates in
          delegates.session?.urlSessionDidFinishEvents(forBackgroundURLSession: owner)
          self.acknowledge(number, of: session)
        }
      }
      let task = known(snapshot)
      post(task) { owner, delegates in
        switch notice.kind {
        case "file": self.handOverFile(of: task, snapshot, owner, delegates)
        case "body": self.handOverBody(of: task, snapshot, owner, delegates)
        case "completion": self.handOverCompletion(of: task, snapshot, owner, delegates)
        default: Diagnostics.log("ferryd offered a delivery of the unknown kind \"\(notice.kind)\"; it is let go")
        }
        self.acknowledge(number, of: session)
      }
    }

    private func handOverFile(
      of task: URLSessionTask, _ snapshot: TaskSnapshot, _ owner: URLSession, _ delegates: Delegates
    ) {
      reportCounts(of: task, owner, delegates)
      guard let download = task as? URLSessionDownloadTask, let file = snapshot.file else { return }
      delegates.download?.urlSession(
        owner, downloadTask: download, didFinishDownloadingTo: URL(fileURLWithPath: file, isDirectory: false))
    }

    private func handOverBody(
      of task: URLSessionTask, _ snapshot: TaskSnapshot, _ owner: URLSession, _ delegates: Delegates
    ) {
      reportCounts(of: task, owner, delegates)
      guard let dataTask = task as? URLSessionDataTask, let body = snapshot.body else { return }
      do {
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: body, isDirectory: false))
        defer { try? file.close() }
        while let part = try file.read(upToCount: Self.bodyPartBytes), !part.isEmpty {
          delegates.data?.urlSession(owner, dataTask: dataTask, didReceive: part)
        }
      } catch {
        let text = "The response's body could not be read from the daemon's folder: \(error)"
        let url = URL(string: snapshot.url)
        task.fields.withLock { $0.bodyFailure = FailureTranslation.make(.cannotOpenFile, text, url: url) }
      }
    }

    private func handOverCompletion(
      of task: URLSessionTask, _ snapshot: TaskSnapshot, _ owner: URLSession, _ delegates: Delegates
    ) {
      reportCounts(of: task, owner, delegates)
      if let response = snapshot.response.flatMap(RequestTranslation.response) {
        Cookies.store(of: response, for: task, in: configuration)
      }
      let bodyFailure = task.fields.withLock { $0.bodyFailure }
      handOverMetrics(of: task, snapshot, owner, delegates)
      finish(task, FailureTranslation.error(of: snapshot) ?? bodyFailure, owner, delegates)
    }
  }
#endif
