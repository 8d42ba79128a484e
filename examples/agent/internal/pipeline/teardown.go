// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/routes"
)

// Teardown removes the kernel state that Run programmed with this Config, in this process or in an
// earlier one. First it removes routes, neighbour entries and tunnels, then WireGuard devices with
// their routes and rules, then the nftables table. It restores the sysctls whose former values are
// known. It ignores Sources, Node and all other fields that describe the desired state.
//
// Teardown returns the changes that it made, as commands of nft, ip, bridge and sysctl. Before the
// removal, each dataplane makes a plan, which has these commands. If the removal fails, the
// dataplane makes a second plan, with the commands that are still to do. Teardown then returns the
// commands of the first plan that are not in the second one. If there is no second plan, it returns
// all commands of the first one. With dry, Teardown changes nothing, and returns the commands of
// the first plans.
//
// Errors: a join of the errors of the dataplanes. If one dataplane fails, the objects of the others
// are removed nevertheless.
func Teardown(ctx context.Context, cfg Config, dry bool) (commands []string, err error) {
	cfg = cfg.withDefaults()
	var errs []error
	for _, open := range []func(Config) (teardownPart, error){openRoutes, openWireguard, openTable} {
		part, err := open(cfg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		done, err := part.remove(ctx, dry)
		commands = append(commands, done...)
		errs = append(errs, err, part.dataplane.Close())
	}
	return commands, errors.Join(errs...)
}

// teardownPart is a dataplane whose objects can be removed.
type teardownPart struct {
	dataplane interface {
		PlanTeardown(context.Context) (string, error)
		Teardown(context.Context) error
		Close() error
	}
	prefix string // the beginning of each command: "nft " or empty
}

func openWireguard(cfg Config) (teardownPart, error) {
	encryption, err := OpenWireguard(cfg)
	return teardownPart{dataplane: encryption}, err
}

func openRoutes(cfg Config) (teardownPart, error) {
	routing, err := routes.New(cfg.routes())
	return teardownPart{dataplane: routing}, err
}

func openTable(cfg Config) (teardownPart, error) {
	table, err := nft.New(nft.Config{
		Renderer: render.Config{Table: cfg.Table}, NetNS: cfg.NetNS, Shared: true, Logger: cfg.Logger,
	})
	return teardownPart{dataplane: table, prefix: "nft "}, err
}

// remove removes the objects, and returns the commands of the changes, as Teardown does. With dry,
// it changes nothing. If there is no plan, remove removes the objects nevertheless.
func (p teardownPart) remove(ctx context.Context, dry bool) (commands []string, err error) {
	commands, planErr := p.plan(ctx)
	if dry {
		return commands, planErr
	}
	if err := p.dataplane.Teardown(ctx); err != nil {
		left, _ := p.plan(ctx) // none if the kernel cannot be read
		return slices.DeleteFunc(commands, func(c string) bool { return slices.Contains(left, c) }), err
	}
	return commands, planErr
}

// plan returns the commands that remove the objects.
func (p teardownPart) plan(ctx context.Context) (commands []string, err error) {
	plan, err := p.dataplane.PlanTeardown(ctx)
	for line := range strings.Lines(plan) {
		commands = append(commands, p.prefix+strings.TrimSuffix(line, "\n"))
	}
	return commands, err
}
