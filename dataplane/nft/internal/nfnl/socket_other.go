// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nfnl

// Open returns ErrUnsupported.
func Open(Config) (Socket, error) { return nil, ErrUnsupported }
