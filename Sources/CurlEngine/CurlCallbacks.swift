import CCurl
import Glibc
import TransferCore

// libcurl's callbacks. Global functions: a closure could be isolated to another thread than the one libcurl runs on.
// SAFETY, for each: `user` is the EasyTransfer (or CurlEngine) that set the option; the engine keeps it alive until the
// handle has left the multi handle, and libcurl calls only from within the engine's own calls, on its thread.

enum CurlCallbacks {
  static func install(_ transfer: EasyTransfer, on easy: EasyHandle) {
    let user = unsafe Unmanaged.passUnretained(transfer).toOpaque()
    unsafe easy.set(CURLOPT_WRITEFUNCTION, function: takeBody)
    unsafe easy.set(CURLOPT_WRITEDATA, pointer: user)
    unsafe easy.set(CURLOPT_HEADERFUNCTION, function: takeHeader)
    unsafe easy.set(CURLOPT_HEADERDATA, pointer: user)
    unsafe easy.set(CURLOPT_READFUNCTION, function: provideBody)
    unsafe easy.set(CURLOPT_READDATA, pointer: user)
    easy.note(CURLOPT_SEEKFUNCTION, unsafe ccurl_set_seek_function(easy.raw, rewindBody))
    unsafe easy.set(CURLOPT_SEEKDATA, pointer: user)
    easy.note(CURLOPT_OPENSOCKETFUNCTION, unsafe ccurl_set_open_socket_function(easy.raw, openSocket))
    unsafe easy.set(CURLOPT_OPENSOCKETDATA, pointer: user)
    easy.note(CURLOPT_RESOLVER_START_FUNCTION, unsafe ccurl_set_resolver_start_function(easy.raw, beginLookup))
    unsafe easy.set(CURLOPT_RESOLVER_START_DATA, pointer: user)
    easy.note(CURLOPT_PREREQFUNCTION, unsafe ccurl_set_prerequest_function(easy.raw, didConnect))
    unsafe easy.set(CURLOPT_PREREQDATA, pointer: user)
    unsafe easy.set(CURLOPT_PRIVATE, pointer: user)
    if let check = transfer.serverCheck {
      unsafe easy.set(CURLOPT_SSL_CTX_DATA, pointer: Unmanaged.passUnretained(check).toOpaque())
    }
  }

  static func transfer(of raw: UnsafeMutableRawPointer) -> EasyTransfer? {
    var text: UnsafeMutablePointer<CChar>?
    guard unsafe ccurl_get_pointer(raw, CURLINFO_PRIVATE, &text) == CURLE_OK, let text = unsafe text else { return nil }
    return unsafe Unmanaged<EasyTransfer>.fromOpaque(UnsafeMutableRawPointer(text)).takeUnretainedValue()
  }

  static func install(_ engine: CurlEngine, on multi: UnsafeMutableRawPointer) {
    let user = unsafe Unmanaged.passUnretained(engine).toOpaque()
    unsafe ccurl_multi_set_socket_function(multi, watchSocket)
    unsafe ccurl_multi_set_pointer(multi, CURLMOPT_SOCKETDATA, user)
    unsafe ccurl_multi_set_timer_function(multi, setTimer)
    unsafe ccurl_multi_set_pointer(multi, CURLMOPT_TIMERDATA, user)
  }
}

private func transfer(_ user: UnsafeMutableRawPointer) -> EasyTransfer {
  unsafe Unmanaged<EasyTransfer>.fromOpaque(user).takeUnretainedValue()
}

private func takeBody(
  _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ user: UnsafeMutableRawPointer?
) -> Int {
  guard let bytes = unsafe bytes, let user = unsafe user else { return 0 }
  return unsafe transfer(user).takeBody(UnsafeRawBufferPointer(start: bytes, count: size * count))
}

private func takeHeader(
  _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ user: UnsafeMutableRawPointer?
) -> Int {
  guard let bytes = unsafe bytes, let user = unsafe user else { return 0 }
  let length = size * count
  return unsafe transfer(user).takeHeader(UnsafeRawBufferPointer(start: bytes, count: length)) ? length : 0
}

private func provideBody(
  _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ user: UnsafeMutableRawPointer?
) -> Int {
  guard let buffer = unsafe buffer, let user = unsafe user else { return Int(CURL_READFUNC_ABORT) }
  return unsafe transfer(user).provideBody(UnsafeMutableRawBufferPointer(start: buffer, count: size * count))
}

private func rewindBody(_ user: UnsafeMutableRawPointer?, _ offset: curl_off_t, _ origin: Int32) -> Int32 {
  guard let user = unsafe user, origin == SEEK_SET else { return Int32(CURL_SEEKFUNC_FAIL) }
  return unsafe transfer(user).rewindBody(to: Int64(offset)) ? Int32(CURL_SEEKFUNC_OK) : Int32(CURL_SEEKFUNC_FAIL)
}

private func openSocket(
  _ user: UnsafeMutableRawPointer?, _ purpose: curlsocktype, _ address: UnsafeMutablePointer<curl_sockaddr>?
) -> curl_socket_t {
  guard let user = unsafe user, let address = unsafe address else { return -1 }
  unsafe transfer(user).endLookup()
  let cloexec = Int32(SOCK_CLOEXEC.rawValue)
  let opened = unsafe socket(address.pointee.family, address.pointee.socktype | cloexec, address.pointee.protocol)
  // Else the kernel takes megabytes of an upload at once, and "sent" would mean little. Refused for other protocols.
  if opened >= 0 { _ = ccurl_limit_unsent(opened, EngineLimits.unsentBytes) }
  return opened
}

private func beginLookup(
  _ state: UnsafeMutableRawPointer?, _ reserved: UnsafeMutableRawPointer?, _ user: UnsafeMutableRawPointer?
) -> Int32 {
  guard let user = unsafe user else { return 1 }
  return unsafe transfer(user).beginLookup() ? 0 : 1
}

private func didConnect(
  _ user: UnsafeMutableRawPointer?, _ primaryAddress: UnsafeMutablePointer<CChar>?,
  _ localAddress: UnsafeMutablePointer<CChar>?, _ primaryPort: Int32, _ localPort: Int32
) -> Int32 {
  guard let user = unsafe user else { return Int32(CURL_PREREQFUNC_ABORT) }
  unsafe transfer(user).didConnect()
  return Int32(CURL_PREREQFUNC_OK)
}

private func watchSocket(
  _ easy: UnsafeMutableRawPointer?, _ socket: curl_socket_t, _ what: Int32, _ user: UnsafeMutableRawPointer?,
  _ assigned: UnsafeMutableRawPointer?
) -> Int32 {
  guard let user = unsafe user else { return -1 }
  let engine = unsafe Unmanaged<CurlEngine>.fromOpaque(user).takeUnretainedValue()
  engine.watch(socket, what, for: unsafe easy.flatMap { unsafe CurlCallbacks.transfer(of: $0) })
  return 0
}

private func setTimer(
  _ multi: UnsafeMutableRawPointer?, _ milliseconds: Int, _ user: UnsafeMutableRawPointer?
) -> Int32 {
  guard let user = unsafe user else { return -1 }
  unsafe Unmanaged<CurlEngine>.fromOpaque(user).takeUnretainedValue().setTimer(milliseconds)
  return 0
}
