// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/owners"
	"github.com/wayleave/wayleave/dataplane/nft/internal/revoke"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Judges applies the changes of a render.Renderer to an Evaluator, as the goroutine of a Revoker does.
type Judges struct {
	renderer  *render.Renderer
	owners    *owners.Tracker
	evaluator *revoke.Evaluator
}

// uplink is a Finder. All addresses that no endpoint has are behind it.
type uplink string

// Find returns the uplink.
func (u uplink) Find(netip.Addr) []revoke.Side { return []revoke.Side{{Interface: string(u)}} }

// NewJudges returns Judges before the first batch, on a node with one uplink.
func NewJudges(uplinkName string, classes render.ClassesConfig) (*Judges, error) {
	r, err := render.New(render.Config{Classes: classes})
	evaluator := revoke.NewEvaluator(revoke.EvaluatorConfig{
		Table: "wayleave", Host: hostChains(), Finder: uplink(uplinkName),
	})
	return &Judges{r, owners.New(), evaluator}, err
}

// Step applies a batch, and returns the judge of the ruleset after it.
func (j *Judges) Step(b dataplane.Batch) (conntrack.Judge, error) {
	j.renderer.Update(b)
	j.owners.Update(b)
	change := revoke.Change{
		Deltas: []*ruleset.Delta{j.renderer.Flush()}, Addresses: revoke.AddressChanges(j.owners.TakeChanges()),
	}
	err := j.evaluator.Apply(&change)
	return j.evaluator.Clone().Judge, errors.Join(append(j.renderer.Errors(), err)...)
}
