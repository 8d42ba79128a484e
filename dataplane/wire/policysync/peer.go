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

// Peer is a process that has connected to the socket of an endpoint, as the kernel identifies it.
type Peer struct {
	// PID is the process, or 0 if the server's PID namespace does not have it.
	PID int
	// User and Group are the numeric ids that it ran as when it connected.
	User, Group uint32
	// Endpoint is the endpoint of the socket, as it is now.
	Endpoint *dataplane.Endpoint

	conn *connection
	node *node
}

// Users returns a function for ServerConfig.Authenticate that accepts processes that run as one of the users, by their
// numeric ids, wherever they run.
func Users(ids ...uint32) func(policy.Key, Peer) error {
	return func(_ policy.Key, p Peer) error {
		if !slices.Contains(ids, p.User) {
			return fmt.Errorf("it runs as user %d", p.User)
		}
		return nil
	}
}

// InWorkload accepts processes in the network namespace of the workload. It is the default of
// ServerConfig.Authenticate. The endpoint's interface must be a device of type veth or netkit: the other end of the
// device is in the namespace of the workload, and no other workload can change that. If the interface
// is of another type, all peers are refused: see HasAddresses.
//
// It needs CAP_SYS_ADMIN and CAP_SYS_PTRACE to enter the namespace, and Linux 5.8. Before Linux 6.5 (SO_PEERPIDFD), the
// server must be in the PID namespace of the node, and a process that reuses the PID of a peer that has exited is
// mistaken for that peer.
func InWorkload(_ policy.Key, p Peer) error { return p.inWorkload() }

// HasAddresses is a function for ServerConfig.Authenticate, for interfaces of other types than veth and netkit: tap,
// macvlan or ipvlan. It accepts processes in a network namespace, other than that of the node, that has all addresses
// of the endpoint. An endpoint without addresses is refused.
//
// A process that can create a network namespace can give it any address. An ordinary user can do that where user
// namespaces are allowed, without any capability: see unshare(1). So use it only where no process that can open the
// socket can create a network namespace or change the addresses of its own. It needs what InWorkload needs.
func HasAddresses(_ policy.Key, p Peer) error { return p.hasAddresses() }
