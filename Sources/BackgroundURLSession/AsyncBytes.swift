#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization

  extension URLSession {
    /// A response's body, byte by byte as it comes. The server waits while the program does not read.
    ///
    /// It can be read once. A task that fails throws its `URLError`; one whose bytes nobody reads is cancelled.
    public struct AsyncBytes: AsyncSequence, Sendable {
      /// A byte of the body.
      public typealias Element = UInt8
      /// The task that brings them.
      public let task: URLSessionDataTask
      let reader: BytesReader

      init(_ task: URLSessionDataTask, _ source: ByteSource) {
        self.task = task
        reader = BytesReader(task, source)
      }

      /// Begins to read.
      public func makeAsyncIterator() -> Iterator { Iterator(reader) }

      /// Reads one byte after the other.
      public struct Iterator: AsyncIteratorProtocol {
        private let reader: BytesReader
        private var piece = Data()
        private var place = 0

        init(_ reader: BytesReader) { self.reader = reader }

        /// The next byte; nil at the end of the body.
        public mutating func next() async throws -> UInt8? {
          while place == piece.count {
            guard let following = try await reader.next() else { return nil }
            piece = following
            place = 0
          }
          defer { place += 1 }
          return piece[piece.startIndex + place]
        }
      }
    }
  }

  /// Between a task and the program that reads its bytes.
  final class ByteSource: Sendable {
    private let state = Mutex(State())

    private struct Piece: Sendable {
      var data: Data
      var taken: @Sendable () -> Void
    }

    private struct State {
      var pieces = FIFO<Piece>()
      var isFinished = false
      var error: URLError?
      var response: URLResponse?
      var responseReader: CheckedContinuation<URLResponse, any Error>?
      var reader: CheckedContinuation<Data?, any Error>?
    }

    // MARK: The task

    func respond(_ response: URLResponse) {
      let reader = state.withLock { state in
        state.response = response
        defer { state.responseReader = nil }
        return state.responseReader
      }
      reader?.resume(returning: response)
    }

    func append(_ data: Data, _ taken: @escaping @Sendable () -> Void) {
      let reader = state.withLock { state in
        guard let reader = state.reader else {
          state.pieces.append(Piece(data: data, taken: taken))
          return nil as CheckedContinuation<Data?, any Error>?
        }
        state.reader = nil
        return reader
      }
      guard let reader else { return }
      taken()
      reader.resume(returning: data)
    }

    func finish(_ error: URLError?) {
      let (reader, responseReader) = state.withLock { state in
        state.isFinished = true
        state.error = error
        defer {
          state.reader = nil
          state.responseReader = nil
        }
        return (state.reader, state.responseReader)
      }
      responseReader?.resume(throwing: error ?? URLError(.badServerResponse))
      if let error { reader?.resume(throwing: error) } else { reader?.resume(returning: nil) }
    }

    // MARK: The program

    func response() async throws -> URLResponse {
      try await withCheckedThrowingContinuation { continuation in
        let known: Result<URLResponse, any Error>? = state.withLock { state in
          if let response = state.response { return .success(response) }
          if state.isFinished { return .failure(state.error ?? URLError(.badServerResponse)) }
          state.responseReader = continuation
          return nil
        }
        if let known { continuation.resume(with: known) }
      }
    }

    func next() async throws -> Data? {
      try await withCheckedThrowingContinuation { continuation in
        let (piece, end) = state.withLock { state -> (Piece?, Result<Data?, any Error>?) in
          if let piece = state.pieces.popFirst() { return (piece, nil) }
          if state.isFinished { return (nil, state.error.map { .failure($0) } ?? .success(nil)) }
          state.reader = continuation
          return (nil, nil)
        }
        piece?.taken()
        if let piece { continuation.resume(returning: piece.data) }
        if let end { continuation.resume(with: end) }
      }
    }
  }

  /// Of the program: the task goes with the last who could read.
  final class BytesReader: Sendable {
    let source: ByteSource
    private let task: URLSessionTask

    init(_ task: URLSessionTask, _ source: ByteSource) {
      self.task = task
      self.source = source
    }

    deinit { task.cancel() }

    func next() async throws -> Data? {
      try await withTaskCancellationHandler {
        try await source.next()
      } onCancel: {
        task.cancel()
      }
    }
  }
#endif
