// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package netlink

// Dial returns ErrUnsupported.
func Dial(Config) (*Conn, error) { return nil, ErrUnsupported }
