// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rtnl

import (
	"context"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Links fails.
func (c *Conn) Links() ([]Link, error) { return nil, errOther }

// Link fails.
func (c *Conn) Link(string) (Link, error) { return Link{}, errOther }

// LinkByIndex fails.
func (c *Conn) LinkByIndex(int) (Link, error) { return Link{}, errOther }

// ChangeVXLAN fails.
func (c *Conn) ChangeVXLAN(int, netip.Addr) error { return errOther }

// Addresses fails.
func (c *Conn) Addresses() ([]Address, error) { return nil, errOther }

// Handle fails.
func (c *Conn) Handle() (*netlink.Handle, error) { return nil, errOther }

// Monitor hears what happens in a namespace; nothing does here. It is not safe for concurrent use.
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
