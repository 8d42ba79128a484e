// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

var errOther = fmt.Errorf("rtnl: rtnetlink needs Linux: %w", errors.ErrUnsupported)

// Conn is a connection to the kernel; there is none here. It is not safe for concurrent use.
type Conn struct{}

// Dial fails.
func Dial(Config) (*Conn, error) { return nil, errOther }

// Close does nothing.
func (c *Conn) Close() error { return nil }

// Links fails.
func (c *Conn) Links() ([]Link, error) { return nil, errOther }

// Link fails.
func (c *Conn) Link(string) (Link, error) { return Link{}, errOther }

// Routes fails.
func (c *Conn) Routes(RouteFilter) ([]Route, error) { return nil, errOther }

// AddRoute fails.
func (c *Conn) AddRoute(Route) error { return errOther }

// DeleteRoute fails.
func (c *Conn) DeleteRoute(Route) error { return errOther }

// Neighbours fails.
func (c *Conn) Neighbours(int, uint8) ([]Neighbour, error) { return nil, errOther }

// Neighbour fails.
func (c *Conn) Neighbour(int, netip.Addr) (Neighbour, error) { return Neighbour{}, errOther }

// AddNeighbour fails.
func (c *Conn) AddNeighbour(Neighbour) error { return errOther }

// ReplaceNeighbour fails.
func (c *Conn) ReplaceNeighbour(Neighbour) error { return errOther }

// DeleteNeighbour fails.
func (c *Conn) DeleteNeighbour(Neighbour) error { return errOther }

// LinkMonitor listens to what happens to interfaces; nothing does here. It is not safe for concurrent use.
type LinkMonitor struct{}

// MonitorLinks fails.
func MonitorLinks(Config) (*LinkMonitor, error) { return nil, errOther }

// Close does nothing.
func (m *LinkMonitor) Close() error { return nil }

// Events fails.
func (m *LinkMonitor) Events(bool) ([]LinkEvent, bool, error) { return nil, false, errOther }

// WatchLinks fails.
func WatchLinks(context.Context, Config, func()) error { return errOther }
