// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/nlsock"
)

// openSocket opens a socket in a network namespace, 0 being that of the calling thread.
func openSocket(netns int) (socket, error) {
	s, err := nlsock.Open(nlsock.Config{Family: unix.NETLINK_NETFILTER, NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("conntrack: %w", err)
	}
	return s, nil
}
