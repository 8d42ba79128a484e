// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// After random changes of files, the receiver has each object from the first file that contains it,
// as in a simple model. No update is sent twice.
func TestCatalogEqualsModel(t *testing.T) {
	const seeds, steps, files, objects = 200, 60, 4, 5
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 0))
		c := newCatalog(func(string, error) {})
		naive := [files]map[policy.Key]policy.Resource{}
		known := map[policy.Key]policy.Resource{}
		for range steps {
			file := rng.IntN(files)
			naive[file] = map[policy.Key]policy.Resource{}
			var content []policy.Resource
			for range rng.IntN(objects) {
				r := object(rng, objects)
				content = append(content, r)
				if naive[file][r.Key()] == nil { // the first one in a file is used
					naive[file][r.Key()] = r
				}
			}
			c.set(fmt.Sprint(file), content)
			if rng.IntN(3) > 0 {
				continue
			}
			limit := 1 + rng.IntN(objects)
			updates := slices.Collect(c.flush(limit))
			for _, some := range updates {
				require.LessOrEqual(t, len(some), limit, "seed %d", seed)
				require.NotEmpty(t, some, "seed %d", seed)
			}
			for _, u := range slices.Concat(updates...) {
				require.False(t, policy.Equal(known[u.Key], u.Resource), "seed %d: %s is sent again", seed, u.Key)
				if u.Resource == nil {
					delete(known, u.Key)
				} else {
					known[u.Key] = u.Resource
				}
			}
			want := map[policy.Key]policy.Resource{}
			for _, file := range naive {
				for key, r := range file {
					if want[key] == nil {
						want[key] = r
					}
				}
			}
			require.Equal(t, want, known, "seed %d", seed)
		}
	}
}

// object returns one of a few objects, packed or not, in one of two forms.
func object(rng *rand.Rand, objects int) policy.Resource {
	name, labels := fmt.Sprint(rng.IntN(objects)), map[string]string{"v": fmt.Sprint(rng.IntN(2))}
	if rng.IntN(2) == 0 {
		return &policy.Profile{Name: name, LabelsToApply: labels}
	}
	return &policy.WorkloadEndpoint{Namespace: fmt.Sprint(rng.IntN(2)), Name: name, Labels: labels}
}
