#if !canImport(Darwin)
  public import Foundation
  public import FoundationNetworking

  /// What a session tells its owner. All methods are called on the session's delegate queue, one at a time.
  ///
  /// A method that a class does not implement itself takes the default of the protocol's extension. Unlike on Apple's
  /// systems, a method added by a *subclass* of the class that declares the conformance is not found.
  public protocol URLSessionDelegate: NSObjectProtocol, Sendable {
    /// The session's last message.
    ///
    /// `error` is nil when the program invalidated it, `URLError.backgroundSessionInUseByAnotherProcess` when another
    /// process is attached to the same identifier.
    func urlSession(_ session: URLSession, didBecomeInvalidWithError error: (any Error)?)

    /// The connection asks: Negotiate, NTLM, a client certificate
    /// (``NSURLAuthenticationMethodClientCertificate``), or a server (``NSURLAuthenticationMethodServerTrust``).
    ///
    /// Servers for which no authority vouches are always asked about; others once for each certificate in ordinary
    /// sessions, and in background sessions where ``URLSessionConfiguration/challengesEveryServer`` says so. Until the
    /// handler is called nothing is sent. Default handling leaves it to the authorities, and shows no certificate.
    ///
    /// Not called for the challenges of a task (Basic, Digest, proxies), also where the task's method is not there. The
    /// task waits, with its bytes, until the handler is called; in background sessions over processes too, of which a
    /// later one is asked again.
    func urlSession(
      _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
      completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void)

    /// As the method with a completion handler, for those who write it `async`. Implement one of the two.
    func urlSession(
      _ session: URLSession, didReceive challenge: URLAuthenticationChallenge
    ) async -> (URLSession.AuthChallengeDisposition, URLCredential?)

    /// All messages about the session's finished tasks have been delivered.
    func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession)
  }

  /// What a session tells about any of its tasks.
  public protocol URLSessionTaskDelegate: URLSessionDelegate {
    /// A task's first message, sent inside the call that creates it and on the caller's thread.
    func urlSession(_ session: URLSession, didCreateTask task: URLSessionTask)

    /// The `earliestBeginDate` of a task has come. It starts when the handler is called: with the request, with another
    /// URL and other headers (method and body stay), or not at all (`URLError.cancelled`).
    func urlSession(
      _ session: URLSession, task: URLSessionTask, willBeginDelayedRequest request: URLRequest,
      completionHandler: @escaping @Sendable (URLSession.DelayedRequestDisposition, URLRequest?) -> Void)

    /// The task waits for a network, or for one that it may use. Called once at most, and only in sessions that wait
    /// for connectivity; never in background sessions, which always wait, as on Apple's systems.
    func urlSession(_ session: URLSession, taskIsWaitingForConnectivity task: URLSessionTask)

    /// Never called: background sessions always follow redirects, as on Apple's systems.
    func urlSession(
      _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
      newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void)

    /// A server or proxy asks for credentials for this task (Basic, Digest).
    ///
    /// The task waits, with its bytes, until the handler is called; in background sessions over processes too, of
    /// which a later one is asked again. Default handling takes the credential that the configuration's
    /// `urlCredentialStorage` has for the protection space; without one the 401 is the task's response.
    /// `.cancelAuthenticationChallenge` ends the task with `URLError.cancelled`. Tasks with completion handlers and the
    /// `async` methods ask too.
    func urlSession(
      _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
      completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void)

    /// As the method with a completion handler, for those who write it `async`. Implement one of the two.
    func urlSession(
      _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge
    ) async -> (URLSession.AuthChallengeDisposition, URLCredential?)

    /// Never called: background sessions take no streams.
    func urlSession(
      _ session: URLSession, task: URLSessionTask,
      needNewBodyStream completionHandler: @escaping @Sendable (InputStream?) -> Void)

    /// Never called: background sessions take no streams.
    func urlSession(
      _ session: URLSession, task: URLSessionTask, needNewBodyStreamFrom offset: Int64,
      completionHandler: @escaping @Sendable (InputStream?) -> Void)

    /// Body bytes were sent. Counts are bytes of the body; the total goes back when the body is sent again.
    func urlSession(
      _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
      totalBytesExpectedToSend: Int64)

    /// A response of 1xx came before the final one; of sessions that are no background sessions.
    ///
    /// Once for each, in order, before whatever is told of the final response. 101 and 104 are not told.
    func urlSession(
      _ session: URLSession, task: URLSessionTask, didReceiveInformationalResponse response: HTTPURLResponse)

    /// What was measured; directly before the task's last message.
    func urlSession(_ session: URLSession, task: URLSessionTask, didFinishCollecting metrics: URLSessionTaskMetrics)

    /// A task's last message.
    ///
    /// `error` is nil or a `URLError`. An HTTP status of 400 or more is no error: look at the task's `response`.
    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?)
  }

  /// What a session tells about data tasks, and about the response bodies of uploads.
  public protocol URLSessionDataDelegate: URLSessionTaskDelegate {
    /// A data task's response head arrived; its data follows when the handler was called with `.allow`.
    ///
    /// Not called for uploads of background sessions, as on Apple's systems.
    func urlSession(
      _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
      completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void)

    /// As the method with a completion handler, for those who write it `async`. Implement one of the two.
    func urlSession(
      _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse
    ) async -> URLSession.ResponseDisposition

    /// The data task was asked to become a download: `downloadTask` goes on with its body, and `dataTask` has had its
    /// last message. Not called in background sessions.
    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didBecome downloadTask: URLSessionDownloadTask)

    /// A part of the body, in order. Collect the parts.
    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data)

    /// Never called: there is no cache.
    func urlSession(
      _ session: URLSession, dataTask: URLSessionDataTask, willCacheResponse proposedResponse: CachedURLResponse,
      completionHandler: @escaping @Sendable (CachedURLResponse?) -> Void)
  }

  /// What a session tells about downloads.
  public protocol URLSessionDownloadDelegate: URLSessionTaskDelegate {
    /// The whole file is at `location`. Move or read it before returning: it is removed then.
    ///
    /// If the process dies before this returned, the next one is offered the file of a background session again.
    func urlSession(
      _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL)

    /// Bytes arrived. `totalBytesExpectedToWrite` is `NSURLSessionTransferSizeUnknown` (−1) while unknown.
    func urlSession(
      _ session: URLSession, downloadTask: URLSessionDownloadTask, didWriteData bytesWritten: Int64,
      totalBytesWritten: Int64, totalBytesExpectedToWrite: Int64)

    /// An interrupted download continues at `fileOffset`; 0 when the held part could not be used.
    func urlSession(
      _ session: URLSession, downloadTask: URLSessionDownloadTask, didResumeAtOffset fileOffset: Int64,
      expectedTotalBytes: Int64)
  }

  extension URLSessionDelegate {
    /// Does nothing.
    public func urlSession(_ session: URLSession, didBecomeInvalidWithError error: (any Error)?) {}

    /// What the `async` method says.
    public func urlSession(
      _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
      completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
      Task {
        let (disposition, credential) = await self.urlSession(session, didReceive: challenge)
        completionHandler(disposition, credential)
      }
    }

    /// Default handling.
    public func urlSession(
      _ session: URLSession, didReceive challenge: URLAuthenticationChallenge
    ) async -> (URLSession.AuthChallengeDisposition, URLCredential?) {
      (challenge.sender as? ChallengeSender)?.takeDefault(of: self)
      return (.performDefaultHandling, nil)
    }

    /// Does nothing.
    public func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) {}
  }

  extension URLSessionTaskDelegate {
    /// Does nothing.
    public func urlSession(_ session: URLSession, didCreateTask task: URLSessionTask) {}

    /// The request is used as it is.
    public func urlSession(
      _ session: URLSession, task: URLSessionTask, willBeginDelayedRequest request: URLRequest,
      completionHandler: @escaping @Sendable (URLSession.DelayedRequestDisposition, URLRequest?) -> Void
    ) {
      completionHandler(.continueLoading, nil)
    }

    /// Does nothing.
    public func urlSession(_ session: URLSession, taskIsWaitingForConnectivity task: URLSessionTask) {}

    /// The redirect is followed.
    public func urlSession(
      _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
      newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
      completionHandler(request)
    }

    /// What the `async` method says.
    public func urlSession(
      _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
      completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
      Task {
        let (disposition, credential) = await self.urlSession(session, task: task, didReceive: challenge)
        completionHandler(disposition, credential)
      }
    }

    /// Default handling.
    public func urlSession(
      _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge
    ) async -> (URLSession.AuthChallengeDisposition, URLCredential?) {
      (.performDefaultHandling, nil)
    }

    /// No stream.
    public func urlSession(
      _ session: URLSession, task: URLSessionTask,
      needNewBodyStream completionHandler: @escaping @Sendable (InputStream?) -> Void
    ) {
      completionHandler(nil)
    }

    /// No stream.
    public func urlSession(
      _ session: URLSession, task: URLSessionTask, needNewBodyStreamFrom offset: Int64,
      completionHandler: @escaping @Sendable (InputStream?) -> Void
    ) {
      completionHandler(nil)
    }

    /// Does nothing.
    public func urlSession(
      _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
      totalBytesExpectedToSend: Int64
    ) {}

    /// Does nothing.
    public func urlSession(
      _ session: URLSession, task: URLSessionTask, didReceiveInformationalResponse response: HTTPURLResponse
    ) {}

    /// Does nothing.
    public func urlSession(
      _ session: URLSession, task: URLSessionTask, didFinishCollecting metrics: URLSessionTaskMetrics
    ) {}

    /// Does nothing.
    public func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {}
  }

  extension URLSessionDataDelegate {
    /// What the `async` method says.
    public func urlSession(
      _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
      completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
      Task { completionHandler(await self.urlSession(session, dataTask: dataTask, didReceive: response)) }
    }

    /// The body is received.
    public func urlSession(
      _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse
    ) async -> URLSession.ResponseDisposition {
      .allow
    }

    /// Does nothing.
    public func urlSession(
      _ session: URLSession, dataTask: URLSessionDataTask, didBecome downloadTask: URLSessionDownloadTask
    ) {}

    /// Does nothing.
    public func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {}

    /// As proposed.
    public func urlSession(
      _ session: URLSession, dataTask: URLSessionDataTask, willCacheResponse proposedResponse: CachedURLResponse,
      completionHandler: @escaping @Sendable (CachedURLResponse?) -> Void
    ) {
      completionHandler(proposedResponse)
    }
  }

  extension URLSessionDownloadDelegate {
    /// Does nothing.
    public func urlSession(
      _ session: URLSession, downloadTask: URLSessionDownloadTask, didWriteData bytesWritten: Int64,
      totalBytesWritten: Int64, totalBytesExpectedToWrite: Int64
    ) {}

    /// Does nothing.
    public func urlSession(
      _ session: URLSession, downloadTask: URLSessionDownloadTask, didResumeAtOffset fileOffset: Int64,
      expectedTotalBytes: Int64
    ) {}
  }
#endif
