// SPDX-License-Identifier: Apache-2.0

// Command sidecar is a reverse proxy in a pod. It authorises each HTTP request by the ingress
// policy of the pod, which it receives from a policysync.Server on the node. You can use it as a
// basis for your own sidecar.
//
//	client ──▶ sidecar ──▶ server of the pod
//	              ▲ policy of this pod, and each change of it
//	      policysync.Server on the node
//
// # Usage
//
// Set up the following:
//
//   - Add a policysync.Server to the Driver of the node agent, as its last dataplane.
//   - Mount the folder with the sockets of the pod's namespace into the pod, read-only.
//   - Let the HTTP server of the pod listen on the loopback address only.
//
// Then start the sidecar in the pod:
//
//	sidecar --socket /run/policysync/web.sock --listen :80 --upstream http://127.0.0.1:8080 --node 192.0.2.1
//
// The sidecar evaluates each request as a TCP connection, from the client's address to the address
// and port at which the request arrived. If policy allows the connection, the sidecar passes the
// request on to the upstream. Otherwise it answers with the status 403, and the body names the
// tier, policy and rule that decided.
//
// A change of policy takes effect with the next request, even on an open connection. Before the
// sidecar has received the policy, it answers each request with the status 503. While the
// connection to the node agent is lost, it uses the last policy. Once the pod's endpoint is
// removed, it answers each request with the status 403.
//
// Two kinds of requests are always allowed:
//
//   - Requests from the addresses of --node. The kernel, too, lets the node's own processes, such
//     as kubelet, connect to the node's pods, whatever policy says.
//   - Requests of the pod to itself: their source is a loopback address, or equal to their
//     destination. Be careful with another proxy in the pod that passes requests on to the sidecar.
//     All these requests are allowed, whoever the client of that proxy is.
//
// For all other requests, the sidecar decides as the kernel does for a new connection, with one
// exception. The sidecar does not know the DSCP of the connection. Therefore a rule that tests the
// DSCP never allows a request. If the action of such a rule is Deny or Pass, and its other fields
// match, the rule denies the request.
//
// If a proxy or NAT in front of the pod has replaced the addresses of a connection, the sidecar
// evaluates the new addresses.
//
// If the kernel enforces the policy as well, a denied client does not even reach the sidecar. A
// sidecar is useful because it can decide by data that the kernel does not have. Such data are the
// path, the method and the identity of the client. To decide by such data, extend the function
// decide.
//
// # Concurrency
//
// Requests are served concurrently. Each is evaluated with the policy that is current when the
// request arrives.
//
// # Errors
//
// An invalid command line, or an address that is in use, ends the program with exit code 1. If the
// policy cannot be received, the program logs the reason and tries again.
package main
