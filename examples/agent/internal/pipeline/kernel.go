// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wireguard"
)

// kernel has the dataplanes that program the kernel of this machine.
type kernel struct {
	table      *nft.Dataplane
	encryption *wireguard.Dataplane // nil unless Config.Wireguard is set
	routing    *routes.Dataplane
	before     func() error // Config.BeforeWrite
	// noGracePeriod is applier.Stats.NoGracePeriod.
	noGracePeriod bool
}

// openKernel opens the dataplanes. Errors: the configuration is invalid, or a dataplane cannot be
// opened.
func openKernel(cfg Config) (k *kernel, err error) {
	k = &kernel{before: cfg.BeforeWrite}
	k.table, err = nft.New(nft.Config{
		Renderer: cfg.renderer(), NetNS: cfg.NetNS, Shared: cfg.SharedTable, ConntrackPolicy: cfg.ConntrackPolicy,
		Flowtable: cfg.Flowtable, BeforeWrite: cfg.BeforeWrite, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	k.noGracePeriod = k.table.Stats().NoGracePeriod
	if k.routing, err = routes.New(cfg.routes()); err != nil {
		return nil, errors.Join(err, k.close())
	}
	if cfg.Wireguard != nil {
		if k.encryption, err = wireguard.New(cfg.wireguard()); err != nil {
			return nil, errors.Join(err, k.close())
		}
	}
	return k, nil
}

// dataplanes returns the dataplanes in the order in which they are called: policy, encryption,
// routes. In this order, no endpoint has a route before it has its policy. Also, no prefix has an
// unencrypted route before packets to it are encrypted.
func (k *kernel) dataplanes() []dataplane.Dataplane {
	list := []dataplane.Dataplane{k.table}
	if k.encryption != nil {
		list = append(list, newGatedFinisher(k.encryption, k.before))
	}
	return append(list, &gated{writer: k.routing, before: k.before})
}

func (k *kernel) close() error {
	err := k.table.Close()
	if k.routing != nil {
		err = errors.Join(err, k.routing.Close())
	}
	if k.encryption != nil {
		err = errors.Join(err, k.encryption.Close())
	}
	return err
}
