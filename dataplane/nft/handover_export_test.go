// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"net/netip"
)

// SetWaitGrace makes a Dataplane wait for grace periods by another function.
func SetWaitGrace(d *Dataplane, wait func() error) { d.handover.waitGrace = wait }

// InterceptEnding makes a Dataplane call ending before it ends connections of addresses. If ending
// returns an error, the connections continue.
func InterceptEnding(d *Dataplane, ending func(addresses []netip.Addr) error) {
	d.handover.ender = &interceptedEnder{d.handover.ender, ending}
}

type interceptedEnder struct {
	addressEnder
	ending func([]netip.Addr) error
}

func (e *interceptedEnder) EndHosts(ctx context.Context, addresses ...netip.Addr) (int, error) {
	if err := e.intercept(addresses); err != nil {
		return 0, err
	}
	return e.addressEnder.EndHosts(ctx, addresses...)
}

func (e *interceptedEnder) EndAddresses(ctx context.Context, addresses ...netip.Addr) (int, error) {
	if err := e.intercept(addresses); err != nil {
		return 0, err
	}
	return e.addressEnder.EndAddresses(ctx, addresses...)
}

func (e *interceptedEnder) EndHostsFunc(ctx context.Context, wanted func(netip.Addr) bool) (int, error) {
	if err := e.ending(nil); err != nil {
		return 0, err
	}
	return e.addressEnder.EndHostsFunc(ctx, wanted)
}

func (e *interceptedEnder) intercept(addresses []netip.Addr) error {
	if len(addresses) == 0 {
		return nil
	}
	return e.ending(addresses)
}
