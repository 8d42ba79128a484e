// SPDX-License-Identifier: Apache-2.0

// Command sidecar is a reverse proxy in a pod that authorises each HTTP request by the ingress policy of the pod. It
// gets the policy by policy sync. You can use it as a basis for your own sidecar.
//
//	client ──▶ sidecar ──▶ server of the pod
//	              ▲ policy of this pod, and each change of it
//	      policysync.Server on the node
//
// # Usage
//
// The node agent has a policysync.Server last in the list of its Driver. The folder with the sockets of the pod's
// namespace is mounted read-only into the pod. The server of the pod listens on the loopback address only.
//
//	sidecar --socket /run/policysync/web.sock --listen :80 --upstream http://127.0.0.1:8080 --node 192.0.2.1
//
// A request is judged as a TCP connection from the client's address to the address and port that it came to. If policy
// allows it, it goes to the upstream. Otherwise the answer is 403, and its body names the tier, policy and rule that
// decide. A change of policy counts for the next request, also on a connection that is open. Before the first state of
// the policy, each answer is 503. While the connection to the node agent is lost, the last state counts. Once the pod's
// endpoint is removed, each answer is 403.
//
// Requests from the addresses of --node are always allowed: the kernel lets the node's own processes, for example the
// kubelet, connect to its pods despite policy. So are requests of the pod to itself, which never leave it: their
// source is the address that they are sent to, or a loopback address. A proxy of the pod in front of the sidecar
// therefore hides its clients from policy.
//
// Otherwise the decision is the one that the kernel takes for a new connection, as far as the sidecar knows the
// connection. It does not know the DSCP: a rule that matches the DSCP never allows here. If its action is Deny or Pass,
// it denies. If the kernel enforces the policy, too, a denied client does not reach the sidecar. Extend decide with
// data that the kernel does not have: the path, the method, or the identity of the client.
//
// Addresses that another proxy or NAT in front has replaced are judged as they arrive.
//
// # Concurrency
//
// Requests are served concurrently, each by the state that is current when it arrives.
//
// # Errors
//
// An invalid command line, or an address that is in use, ends the program with exit code 1. If there is no policy, the
// program logs that and retries.
package main
