// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package conntrack

// openSocket returns ErrUnsupported.
func openSocket(int) (socket, error) { return nil, ErrUnsupported }
