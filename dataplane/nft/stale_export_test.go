// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Judges follows a Renderer the way the sweeping goroutine does.
type Judges struct {
	renderer *Renderer
	holdings *holdings
	world    *world
}

// uplink is where all addresses are that no endpoint has.
type uplink string

func (u uplink) find(netip.Addr) []side { return []side{{iface: string(u)}} }

// NewJudges returns one before the first batch, on a node with one uplink.
func NewJudges(uplinkName string, classes ClassesConfig) (*Judges, error) {
	r, err := NewRenderer(RendererConfig{Classes: classes})
	return &Judges{r, newHoldings(), newWorld("wayleave", uplink(uplinkName))}, err
}

// Step takes a batch, and returns the judge of the ruleset from there on.
func (j *Judges) Step(b dataplane.Batch) (conntrack.Judge, error) {
	j.renderer.Update(b)
	j.holdings.update(b)
	err := j.world.apply(&commit{deltas: []*ruleset.Delta{j.renderer.Flush()}, owners: j.holdings.takeChanges()})
	return j.world.clone().judge, errors.Join(append(j.renderer.Errors(), err)...)
}
