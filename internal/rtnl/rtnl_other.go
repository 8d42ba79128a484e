// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

var errOther = fmt.Errorf("rtnl: rtnetlink needs Linux: %w", errors.ErrUnsupported)

// Conn is a connection to the kernel. It cannot be made on this system.
type Conn struct{}

// Dial fails.
func Dial(Config) (*Conn, error) { return nil, errOther }

// Close does nothing.
func (c *Conn) Close() error { return nil }

// Port is zero.
func (c *Conn) Port() uint32 { return 0 }

// Do fails.
func (c *Conn) Do(*Batch, func(int, error)) error { return errOther }

// Routes fails.
func (c *Conn) Routes(RouteFilter, func(), func(*Route)) error { return errOther }

// Lookup fails.
func (c *Conn) Lookup(netip.Addr) (Route, error) { return Route{}, errOther }

// Neighbours fails.
func (c *Conn) Neighbours(int, uint8, bool) ([]Neighbour, error) { return nil, errOther }

// Neighbour fails.
func (c *Conn) Neighbour(int, netip.Addr, bool) (Neighbour, error) { return Neighbour{}, errOther }

// Forwards fails.
func (c *Conn) Forwards(int) ([]Neighbour, error) { return nil, errOther }

// Rules fails.
func (c *Conn) Rules(int, uint8) ([]Rule, error) { return nil, errOther }

// Links fails.
func (c *Conn) Links() ([]Link, error) { return nil, errOther }

// Link fails.
func (c *Conn) Link(string) (Link, error) { return Link{}, errOther }

// LinkByIndex fails.
func (c *Conn) LinkByIndex(int) (Link, error) { return Link{}, errOther }

// ChangeVXLAN fails.
func (c *Conn) ChangeVXLAN(int, netip.Addr) error { return errOther }

// ChangeIPIP fails.
func (c *Conn) ChangeIPIP(int, netip.Addr, int) error { return errOther }

// Addresses fails.
func (c *Conn) Addresses() ([]Address, error) { return nil, errOther }

// Handle fails.
func (c *Conn) Handle() (*netlink.Handle, error) { return nil, errOther }

// Batch is a list of changes, which cannot be made on this system.
type Batch struct{}

// Len is zero.
func (b *Batch) Len() int { return 0 }

// Reset does nothing.
func (b *Batch) Reset() {}

// AddRoute does nothing.
func (b *Batch) AddRoute(*Route) {}

// ReplaceRoute does nothing.
func (b *Batch) ReplaceRoute(*Route) {}

// DeleteRoute does nothing.
func (b *Batch) DeleteRoute(*Route) {}

// AddNeighbour does nothing.
func (b *Batch) AddNeighbour(*Neighbour) {}

// ReplaceNeighbour does nothing.
func (b *Batch) ReplaceNeighbour(*Neighbour) {}

// DeleteNeighbour does nothing.
func (b *Batch) DeleteNeighbour(*Neighbour) {}

// AddRule does nothing.
func (b *Batch) AddRule(*Rule) {}

// DeleteRule does nothing.
func (b *Batch) DeleteRule(*Rule) {}

// Monitor receives no notifications on this operating system. It is not safe for concurrent use.
type Monitor struct{}

// Listen fails.
func Listen(Config, ...Group) (*Monitor, error) { return nil, errOther }

// Close does nothing.
func (m *Monitor) Close() error { return nil }

// Ignore fails.
func (m *Monitor) Ignore(uint32) error { return errOther }

// Poll fails.
func (m *Monitor) Poll(func(*Event)) (bool, error) { return false, errOther }

// Wait fails.
func (m *Monitor) Wait(context.Context) error { return errOther }
