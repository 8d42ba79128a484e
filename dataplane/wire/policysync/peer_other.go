// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package policysync

import (
	"errors"
	"fmt"
	"net"
)

var errOther = fmt.Errorf("the identity of a peer needs Linux: %w", errors.ErrUnsupported)

// peerOf returns errOther.
func peerOf(net.Conn) (Peer, error) { return Peer{}, errOther }

// inWorkload returns errOther.
func (p Peer) inWorkload() error { return errOther }

// hasAddresses returns errOther.
func (p Peer) hasAddresses() error { return errOther }

// node is not used.
type node struct{ fd int }

// close does nothing.
func (n *node) close() {}
