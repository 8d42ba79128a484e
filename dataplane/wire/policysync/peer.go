// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// ErrUnauthorized is wrapped by errors about peers that must not read the policy of an endpoint.
var ErrUnauthorized = errors.New("policysync: peer is not authorized")

// Peer is a process that has connected to the socket of an endpoint, as the kernel identifies it.
type Peer struct {
	// PID is the process, or 0 if the server's PID namespace does not have it.
	PID int
	// User and Group are the numeric ids that it ran as when it connected.
	User, Group uint32
	// Endpoint is the endpoint of the socket, as it is now.
	Endpoint *dataplane.Endpoint

	conn *net.UnixConn
	// netNS is that of ServerConfig.
	netNS int
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
// ServerConfig.Authenticate. The namespace is not that of the node, and has all addresses of the endpoint. If the
// endpoint's interface is a veth device, the other end of it is in the namespace: another workload can give itself the
// addresses, but not that.
//
// It needs CAP_SYS_ADMIN and CAP_SYS_PTRACE to enter the namespace, and Linux 5.8. Before Linux 6.5 (SO_PEERPIDFD), the
// server must be in the PID namespace of the node, and a process that takes over the number of one that has connected
// and ended is taken for it.
func InWorkload(_ policy.Key, p Peer) error { return p.inWorkload() }
