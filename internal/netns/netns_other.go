// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

var errOther = fmt.Errorf("netns: network namespaces need Linux: %w", errors.ErrUnsupported)

// EnsureRoot fails: only Linux has network namespaces.
func EnsureRoot() (ran bool, code int, err error) { return false, 0, errOther }

// NS is a handle of a network namespace. It is safe for concurrent use.
type NS struct{}

// New fails.
func New() (*NS, error) { return nil, errOther }

// FD returns -1.
func (n *NS) FD() int { return -1 }

// Close does nothing.
func (n *NS) Close() error { return nil }

// Do fails.
func (n *NS) Do(func() error) error { return errOther }

// Sysctl fails.
func (n *NS) Sysctl(string) (string, error) { return "", errOther }

// SetSysctl fails.
func (n *NS) SetSysctl(_, _ string) error { return errOther }

// Veth fails.
func Veth(_, _ End) (Link, Link, error) { return Link{}, Link{}, errOther }

// Link fails.
func (n *NS) Link(string) (Link, error) { return Link{}, errOther }

// Up fails.
func (n *NS) Up(string) error { return errOther }

// Down fails.
func (n *NS) Down(string) error { return errOther }

// DeleteLink fails.
func (n *NS) DeleteLink(string) error { return errOther }

// AddAddr fails.
func (n *NS) AddAddr(string, netip.Prefix) error { return errOther }

// AddGateway fails.
func (n *NS) AddGateway(string, netip.Addr, net.HardwareAddr) error { return errOther }

// NewWorkload fails.
func NewWorkload(*NS, string, ...netip.Addr) (*Workload, error) { return nil, errOther }
