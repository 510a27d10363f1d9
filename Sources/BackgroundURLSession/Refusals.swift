#if !canImport(Darwin)
  public import Foundation
  public import FoundationNetworking

  /// What Apple's background sessions refuse with an exception, in the same words. `fatalError` and not a precondition,
  /// because an optimised precondition says nothing.
  enum Refusal {
    static func completionHandler() -> Never {
      fatalError("Completion handler blocks are not supported in background sessions. Use a delegate instead.")
    }

    static func uploadFromMemory() -> Never {
      fatalError("Upload tasks from NSData are not supported in background sessions.")
    }

    static func uploadFromStream() -> Never {
      fatalError("Upload tasks from streams are not supported in background sessions.")
    }

    static func unreadable(_ file: URL) -> Never {
      fatalError("Cannot read file at \(file.absoluteString)")
    }

    static func onlyBackgroundSessions() -> Never {
      fatalError(
        """
        BackgroundURLSession carries background sessions only: use URLSessionConfiguration.background(withIdentifier:) \
        with a delegate, or FoundationNetworking.URLSession for a transfer that ends with this process.
        """
      )
    }

    static func canRead(_ file: URL) -> Bool {
      guard file.isFileURL,
        let type = try? FileManager.default.attributesOfItem(atPath: file.resolvingSymlinksInPath().path)[.type],
        type as? FileAttributeType == .typeRegular
      else { return false }
      return FileManager.default.isReadableFile(atPath: file.path)
    }
  }

  extension URLSession {
    /// Ends the program: background sessions take files only.
    public func uploadTask(with request: URLRequest, from bodyData: Data) -> URLSessionUploadTask {
      Refusal.uploadFromMemory()
    }

    /// Ends the program: background sessions take files only.
    public func uploadTask(withStreamedRequest request: URLRequest) -> URLSessionUploadTask {
      Refusal.uploadFromStream()
    }

    /// Ends the program: background sessions take no completion handlers.
    public func dataTask(
      with request: URLRequest, completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDataTask {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions take no completion handlers.
    public func dataTask(
      with url: URL, completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDataTask {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions take no completion handlers.
    public func uploadTask(
      with request: URLRequest, fromFile fileURL: URL,
      completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionUploadTask {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions take no completion handlers.
    public func uploadTask(
      with request: URLRequest, from bodyData: Data?,
      completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionUploadTask {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions take no completion handlers.
    public func uploadTask(
      withResumeData resumeData: Data,
      completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionUploadTask {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions take no completion handlers.
    public func downloadTask(
      with request: URLRequest, completionHandler: @escaping @Sendable (URL?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDownloadTask {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions take no completion handlers.
    public func downloadTask(
      with url: URL, completionHandler: @escaping @Sendable (URL?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDownloadTask {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions take no completion handlers.
    public func downloadTask(
      withResumeData resumeData: Data, completionHandler: @escaping @Sendable (URL?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDownloadTask {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions have no `async` transfers.
    public func data(
      for request: URLRequest, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (Data, URLResponse) {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions have no `async` transfers.
    public func data(
      from url: URL, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (Data, URLResponse) {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions have no `async` transfers.
    public func upload(
      for request: URLRequest, fromFile fileURL: URL, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (Data, URLResponse) {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions have no `async` transfers.
    public func upload(
      for request: URLRequest, from bodyData: Data, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (Data, URLResponse) {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions have no `async` transfers.
    public func download(
      for request: URLRequest, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (URL, URLResponse) {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions have no `async` transfers.
    public func download(
      from url: URL, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (URL, URLResponse) {
      Refusal.completionHandler()
    }

    /// Ends the program: background sessions have no `async` transfers.
    public func download(
      resumeFrom resumeData: Data, delegate: (any URLSessionTaskDelegate)? = nil
    ) async throws -> (URL, URLResponse) {
      Refusal.completionHandler()
    }
  }
#endif
