// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// errUnauthorized is wrapped by errors about peers that must not read the policy of an endpoint.
var errUnauthorized = errors.New("policysync: peer is not authorized")

// Peer is a process that has connected to the socket of an endpoint. The kernel has identified it.
type Peer struct {
	// PID is the number of the process, or 0 if the process is not in the server's PID namespace.
	PID int
	// User and Group are the numeric ids of the process when it connected.
	User, Group uint32
	// Endpoint is the current state of the socket's endpoint.
	Endpoint *dataplane.Endpoint

	conn *connection
	node *node
}

// Users returns a function for ServerConfig.Authenticate. The function accepts every process that
// runs as a user with one of the numeric ids, even if it is not in the workload.
func Users(ids ...uint32) func(policy.Key, Peer) error {
	return func(_ policy.Key, p Peer) error {
		if !slices.Contains(ids, p.User) {
			return fmt.Errorf("it runs as user %d", p.User)
		}
		return nil
	}
}

// InWorkload accepts processes in the network namespace of the workload. It is the default of
// ServerConfig.Authenticate. The endpoint's interface must be a device of type veth or netkit. The
// other end of such a device is in the namespace of the workload, and no other workload can change
// that. If the interface is of another type, InWorkload refuses all processes: use HasAddresses.
//
// InWorkload needs Linux 5.8, and CAP_SYS_ADMIN and CAP_SYS_PTRACE to enter the namespace. Before
// Linux 6.5 (SO_PEERPIDFD) there are two restrictions. The server must be in the PID namespace of
// the node. If a peer has exited and another process has its PID, that process is mistaken for the
// peer.
func InWorkload(_ policy.Key, p Peer) error { return p.inWorkload() }

// HasAddresses is a function for ServerConfig.Authenticate, for interfaces that InWorkload refuses,
// such as tap, macvlan and ipvlan. It accepts a process if the network namespace of the process has
// all addresses of the endpoint, and is not that of the node. It refuses all processes if the
// endpoint has no addresses.
//
// HasAddresses is less strict than InWorkload. A process that can create a network namespace can
// give that namespace any address, and so pass the check. Where user namespaces are allowed, an
// ordinary user can create a network namespace without any capability: see unshare(1). Therefore
// use HasAddresses only if two conditions hold for the processes that can open the socket. They
// cannot create a network namespace, and they cannot change the addresses of the network namespace
// that they are in. HasAddresses has the same requirements as InWorkload.
func HasAddresses(_ policy.Key, p Peer) error { return p.hasAddresses() }
