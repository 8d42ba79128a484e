// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nfnl

// Dial returns ErrUnsupported.
func Dial(Config) (*Conn, error) { return nil, ErrUnsupported }

// Open returns ErrUnsupported.
func Open(Config) (Socket, error) { return nil, ErrUnsupported }

// Monitor cannot be had on this operating system. It is not safe for concurrent use.
type Monitor struct{}

// Listen returns ErrUnsupported.
func Listen(Config) (*Monitor, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Monitor) Close() error { return nil }

// Pause does nothing.
func (*Monitor) Pause() error { return ErrUnsupported }

// Resume does nothing.
func (*Monitor) Resume() error { return ErrUnsupported }

// Wait returns ErrUnsupported.
func (*Monitor) Wait() error { return ErrUnsupported }

// Wake does nothing.
func (*Monitor) Wake() {}

// Events returns ErrUnsupported.
func (*Monitor) Events(func(Event)) (bool, error) { return false, ErrUnsupported }
