// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package policysync

import (
	"errors"
	"fmt"
	"net"
)

var errOther = fmt.Errorf("the identity of a peer needs Linux: %w", errors.ErrUnsupported)

// peerOf refuses.
func peerOf(net.Conn) (Peer, error) { return Peer{}, errOther }

// inWorkload refuses.
func (p Peer) inWorkload() error { return errOther }
