// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"errors"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
)

// ErrNoTable is the error of Compare before there is a desired table.
var ErrNoTable = errors.New("nft: there is no desired table yet")

// comparisons and comparePause say how often Compare reads a table that differs, and how long it waits
// meanwhile: a change under way is over then, grace period included.
const (
	comparisons  = 4
	comparePause = 100 * time.Millisecond
)

// Compare reads the table back from the kernel and compares it with the desired one. It repairs
// nothing, writes nothing and takes nothing over: Resync does. While a change is being programmed, it
// reads again, up to four times within a second or so. It may be called from any goroutine. With
// Config.NetNS, that file must still be open; otherwise the namespace is that of the calling thread.
//
// Errors: ErrNoTable; those of applier.Compare.
func (d *Dataplane) Compare(ctx context.Context) (c applier.Comparison, err error) {
	for i := range comparisons {
		if i > 0 {
			select {
			case <-ctx.Done():
				return c, ctx.Err()
			case <-time.After(comparePause):
			}
		}
		table := d.Table()
		if table == nil {
			return c, ErrNoTable
		}
		if c, err = applier.Compare(ctx, d.config.NetNS, table); err == nil {
			c, err = d.ports.compare(ctx, d.config.NetNS, c)
		}
		if err != nil || c.Equal() {
			return c, err
		}
	}
	return c, nil
}
