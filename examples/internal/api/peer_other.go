// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package api

import (
	"errors"
	"net"
)

// peer returns errors.ErrUnsupported: the agent runs on Linux only.
func peer(net.Conn) (uint32, error) { return 0, errors.ErrUnsupported }
