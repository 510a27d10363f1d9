#if !canImport(Darwin)
  public import Foundation
  public import FoundationNetworking

  /// Tasks whose result goes to a closure, and uploads of what is no file. Background sessions refuse them with Apple's
  /// words, which ends the program.
  extension URLSession {
    private func checkTakesHandlers() {
      if !backing.takesHandlers { Refusal.completionHandler() }
    }

    /// The upload of bytes in memory; suspended. Ends the program in background sessions, which take files only.
    public func uploadTask(with request: URLRequest, from bodyData: Data) -> URLSessionUploadTask {
      var order = TaskOrder(.upload, request)
      order.body = bodyData
      return backing.makeTask(URLSessionUploadTask.init(session:fields:), order)
    }

    /// The upload of the request's `httpBodyStream`, or of a stream for which the delegate is asked; suspended. Ends
    /// the program in background sessions, which take files only.
    public func uploadTask(withStreamedRequest request: URLRequest) -> URLSessionUploadTask {
      var order = TaskOrder(.upload, request)
      order.isStreamed = true
      return backing.makeTask(URLSessionUploadTask.init(session:fields:), order)
    }

    /// A request whose body goes to `completionHandler`, on ``delegateQueue``; suspended. An HTTP status is no error.
    public func dataTask(
      with request: URLRequest, completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDataTask {
      checkTakesHandlers()
      var order = TaskOrder(.data, request)
      order.handler = .data(completionHandler)
      return backing.makeTask(URLSessionDataTask.init(session:fields:), order)
    }

    /// A GET whose body goes to `completionHandler`, on ``delegateQueue``; suspended.
    public func dataTask(
      with url: URL, completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDataTask {
      dataTask(with: URLRequest(url: url), completionHandler: completionHandler)
    }

    /// The upload of a file, whose response goes to `completionHandler`; suspended. The file is read while it is sent.
    public func uploadTask(
      with request: URLRequest, fromFile fileURL: URL,
      completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionUploadTask {
      checkTakesHandlers()
      guard Refusal.canRead(fileURL) else { Refusal.unreadable(fileURL) }
      var order = TaskOrder(.upload, request)
      order.source = fileURL
      order.handler = .data(completionHandler)
      return backing.makeTask(URLSessionUploadTask.init(session:fields:), order)
    }

    /// The upload of bytes in memory, whose response goes to `completionHandler`; suspended.
    public func uploadTask(
      with request: URLRequest, from bodyData: Data?,
      completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionUploadTask {
      checkTakesHandlers()
      var order = TaskOrder(.upload, request)
      order.body = bodyData ?? request.httpBody ?? Data()
      order.handler = .data(completionHandler)
      return backing.makeTask(URLSessionUploadTask.init(session:fields:), order)
    }

    /// A task that fails with `URLError.cannotOpenFile`: no upload is resumable yet.
    public func uploadTask(
      withResumeData resumeData: Data,
      completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionUploadTask {
      checkTakesHandlers()
      var order = TaskOrder(.upload, nil)
      order.resumeData = resumeData
      order.handler = .data(completionHandler)
      return backing.makeTask(URLSessionUploadTask.init(session:fields:), order)
    }

    /// A download, whose file goes to `completionHandler`, on ``delegateQueue``; suspended. Move or read the file in
    /// the closure: it is removed when that returns.
    public func downloadTask(
      with request: URLRequest, completionHandler: @escaping @Sendable (URL?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDownloadTask {
      checkTakesHandlers()
      var order = TaskOrder(.download, request)
      order.handler = .file(completionHandler)
      return backing.makeTask(URLSessionDownloadTask.init(session:fields:), order)
    }

    /// The download of `url`, as ``downloadTask(with:completionHandler:)``.
    public func downloadTask(
      with url: URL, completionHandler: @escaping @Sendable (URL?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDownloadTask {
      downloadTask(with: URLRequest(url: url), completionHandler: completionHandler)
    }

    /// A download that goes on where another one of this process ended, as ``downloadTask(withResumeData:)``; its file
    /// goes to `completionHandler`.
    public func downloadTask(
      withResumeData resumeData: Data, completionHandler: @escaping @Sendable (URL?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDownloadTask {
      checkTakesHandlers()
      var order = TaskOrder(.download, nil)
      order.resumeData = resumeData
      order.handler = .file(completionHandler)
      return backing.makeTask(URLSessionDownloadTask.init(session:fields:), order)
    }
  }
#endif
