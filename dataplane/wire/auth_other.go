// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package wire

import (
	"errors"
	"net"
)

// peerUser returns errors.ErrUnsupported.
func peerUser(net.Conn) (uint32, error) { return 0, errors.ErrUnsupported }
