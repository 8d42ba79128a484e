// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/nflog"
)

// kernel simulates nflog: one socket can follow a group.
type kernel struct {
	busy map[uint16]bool
	log  chan nflog.Entry
}

var errBusy = errors.New("busy")

func (k *kernel) follow(ctx context.Context, group uint16, started func(), do func(nflog.Entry) error) error {
	if k.busy[group] {
		return errBusy
	}
	k.busy[group] = true
	defer delete(k.busy, group)
	started()
	for {
		select {
		case e := <-k.log:
			if err := do(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Every listener receives all entries after its join. The group is followed once, and only while
// there are listeners.
func TestTaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{busy: map[uint16]bool{9: true}, log: make(chan nflog.Entry)}
		taps := newTaps(k.follow)
		one, err := taps.join(3)
		require.NoError(t, err)
		two, err := taps.join(3)
		require.NoError(t, err)
		k.log <- nflog.Entry{Prefix: "a", Missed: 2}
		for _, l := range []*listener{one, two} {
			require.Equal(t, nflog.Entry{Prefix: "a", Missed: 2}, <-l.entries)
		}

		// A slow listener receives the number of missed entries. It does not delay the other.
		for range backlog + 5 {
			k.log <- nflog.Entry{Missed: 1}
			<-two.entries
		}
		for range backlog {
			require.Equal(t, 1, (<-one.entries).Missed)
		}
		k.log <- nflog.Entry{}
		require.Equal(t, 10, (<-one.entries).Missed, "five, and one missed before each")
		require.Zero(t, (<-two.entries).Missed)

		taps.leave(one)
		synctest.Wait()
		require.True(t, k.busy[3])
		taps.leave(two)
		again, err := taps.join(3) // at once: the kernel may not have released the group yet
		require.NoError(t, err)
		k.log <- nflog.Entry{Prefix: "b"}
		require.Equal(t, "b", (<-again.entries).Prefix)

		// Another program follows another group.
		refused, err := taps.join(9)
		require.NoError(t, err)
		<-refused.done
		select {
		case <-refused.started:
			t.Fatal("the tap still follows a group that the kernel refused")
		default:
		}
		require.ErrorIs(t, refused.err, errBusy)
		taps.leave(refused)

		taps.close()
		<-again.done
		require.ErrorIs(t, again.err, context.Canceled)
		taps.leave(again)
		_, err = taps.join(3)
		require.ErrorIs(t, err, errEnding)
	})
}
