// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"errors"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
)

// ErrNoTable is the error of Compare while there is no desired table yet.
var ErrNoTable = errors.New("nft: there is no desired table yet")

// comparisons is the number of times that Compare reads the kernel's table while it differs from
// the desired one. The constant comparePause is the time between two readings. It is longer than a
// change takes to program, including the grace period.
const (
	comparisons  = 4
	comparePause = 100 * time.Millisecond
)

// Compare reads the table from the kernel and compares it with the desired one. It does not repair
// the table; Resync does. While a change is being programmed, the two tables differ for a short
// time. So if the tables differ, Compare reads the kernel's table again, up to four times in all,
// within about a second.
//
// Compare may be called from any goroutine. It reads the network namespace of Config.NetNS, whose
// file descriptor must still be open. If NetNS is not set, it reads that of the calling thread.
//
// Errors: those of applier.Compare; ErrNoTable if there is no desired table yet, because no batch
// with InSync was applied.
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
