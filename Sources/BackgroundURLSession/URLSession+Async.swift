#if !canImport(Darwin)
  public import Foundation
  public import FoundationNetworking
  internal import Synchronization

  /// Transfers that a program awaits. Cancelling the Swift task cancels them, and they throw `URLError.cancelled`. In
  /// background sessions they end the program, with Apple's words.
  extension URLSession {
    /// The body and head of a response, whatever its status is.
    public func data(
      for request: URLRequest, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (Data, URLResponse) {
      try await data(of: TaskOrder(.data, request), URLSessionDataTask.init(session:fields:), delegate)
    }

    /// As ``data(for:delegate:)``, for a GET of `url`.
    public func data(
      from url: URL, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (Data, URLResponse) {
      try await data(for: URLRequest(url: url), delegate: delegate)
    }

    /// Sends a file, which is read meanwhile.
    public func upload(
      for request: URLRequest, fromFile fileURL: URL, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (Data, URLResponse) {
      var order = TaskOrder(.upload, request)
      order.source = fileURL
      return try await data(of: order, URLSessionUploadTask.init(session:fields:), delegate)
    }

    /// Sends bytes.
    public func upload(
      for request: URLRequest, from bodyData: Data, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (Data, URLResponse) {
      var order = TaskOrder(.upload, request)
      order.body = bodyData
      return try await data(of: order, URLSessionUploadTask.init(session:fields:), delegate)
    }

    /// Downloads into a file in the temporary folder, which is the caller's to move or remove.
    public func download(
      for request: URLRequest, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (URL, URLResponse) {
      try await file(of: TaskOrder(.download, request), delegate)
    }

    /// As ``download(for:delegate:)``, for a GET of `url`.
    public func download(
      from url: URL, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (URL, URLResponse) {
      try await download(for: URLRequest(url: url), delegate: delegate)
    }

    /// Goes on where another download of this process ended, as ``downloadTask(withResumeData:)``. What it needs is in
    /// the error that was thrown, as `URLError.downloadTaskResumeData`.
    public func download(
      resumeFrom resumeData: Data, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (URL, URLResponse) {
      var order = TaskOrder(.download, nil)
      order.resumeData = resumeData
      return try await file(of: order, delegate)
    }

    /// The head of a response, and its body byte by byte.
    public func bytes(
      for request: URLRequest, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (AsyncBytes, URLResponse) {
      if !backing.takesHandlers { Refusal.completionHandler() }
      let source = ByteSource()
      var order = TaskOrder(.data, request)
      order.handler = .bytes(source)
      order.delegate = delegate
      let task = backing.makeTask(URLSessionDataTask.init(session:fields:), order)
      task.resume()
      return try await withTaskCancellationHandler {
        let response = try await source.response()
        return (AsyncBytes(task, source), response)
      } onCancel: {
        task.cancel()
      }
    }

    /// As ``bytes(for:delegate:)``, for a GET of `url`.
    public func bytes(
      from url: URL, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (AsyncBytes, URLResponse) {
      try await bytes(for: URLRequest(url: url), delegate: delegate)
    }

    // MARK: By closures

    private func data<Made: URLSessionTask>(
      of order: TaskOrder, _ make: @escaping Maker<Made>, _ delegate: (any URLSessionTaskDelegate)?
    ) async throws -> (Data, URLResponse) {
      try await result(of: order, make, delegate) { continuation in
        .data { data, response, error in
          continuation.resume(with: Self.outcome(data, response, error))
        }
      }
    }

    private func file(
      of order: TaskOrder, _ delegate: (any URLSessionTaskDelegate)?
    ) async throws -> (URL, URLResponse) {
      try await result(of: order, URLSessionDownloadTask.init(session:fields:), delegate) { continuation in
        .file { file, response, error in
          continuation.resume(with: Self.outcome(file, response, error).flatMap(Self.keeping))
        }
      }
    }

    private static func outcome<Value>(
      _ value: Value?, _ response: URLResponse?, _ error: (any Error)?
    ) -> Result<(Value, URLResponse), any Error> {
      guard let value, let response else { return .failure(error ?? URLError(.badServerResponse)) }
      return .success((value, response))
    }

    /// Under a name of its own, so that it stays.
    private static func keeping(_ file: URL, _ response: URLResponse) -> Result<(URL, URLResponse), any Error> {
      let name = "CFNetworkDownload_\(UUID().uuidString).tmp"
      let kept = FileManager.default.temporaryDirectory.appendingPathComponent(name)
      do {
        try FileManager.default.moveItem(at: file, to: kept)
        return .success((kept, response))
      } catch {
        let text = "The file cannot be placed at \(kept.path): \(error)"
        return .failure(FailureTranslation.make(.cannotCreateFile, text, url: response.url))
      }
    }

    private func result<Made: URLSessionTask, Value: Sendable>(
      of order: TaskOrder, _ make: @escaping Maker<Made>, _ delegate: (any URLSessionTaskDelegate)?,
      _ handler: (CheckedContinuation<(Value, URLResponse), any Error>) -> TaskHandler
    ) async throws -> (Value, URLResponse) {
      if !backing.takesHandlers { Refusal.completionHandler() }
      if let source = order.source, !Refusal.canRead(source) { Refusal.unreadable(source) }
      let running = Running()
      return try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { continuation in
          var order = order
          order.handler = handler(continuation)
          order.delegate = delegate
          let task = backing.makeTask(make, order)
          running.begin(task)
        }
      } onCancel: {
        running.cancel()
      }
    }
  }

  /// A task that a Swift task waits for, and that goes with it.
  private final class Running: Sendable {
    private let state = Mutex<(task: URLSessionTask?, isCancelled: Bool)>((nil, false))

    func begin(_ task: URLSessionTask) {
      let isCancelled = state.withLock { state in
        state.task = task
        return state.isCancelled
      }
      if isCancelled { task.cancel() } else { task.resume() }
    }

    func cancel() {
      let task = state.withLock { state in
        state.isCancelled = true
        return state.task
      }
      task?.cancel()
    }
  }
#endif
