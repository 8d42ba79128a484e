// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// Config is what an Evaluator must know of the nodes beside the world. It counts for flows that
// have a Node; of the others, only KeepInvalid does. The zero value is usable.
type Config struct {
	// Host is how the nodes treat their own traffic. The zero value means the defaults that
	// policy.HostConfig defines.
	Host policy.HostConfig
	// Interfaces has the addresses of the nodes' host interfaces, by node and name. It is needed
	// where a HostEndpoint has no InterfaceName and is found by its ExpectedIPs: on such a node a
	// flow through an interface that is not listed, and so may be the host endpoint's, is denied.
	Interfaces map[string]map[string][]netip.Addr
}

// NewConfigured is New with a Config. Its error describes what is wrong with cfg.Host.
func NewConfigured(w World, cfg Config) (*Evaluator, error) {
	if err := cfg.Host.Validate(); err != nil {
		return nil, fmt.Errorf("verdict: new: %w", err)
	}
	return newEvaluator(w, cfg), nil
}
