// SPDX-License-Identifier: Apache-2.0

package packed_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
)

// roundTrip requires that an endpoint is equal after Pack and Unpack.
func roundTrip(t *testing.T, w *policy.WorkloadEndpoint, message ...any) {
	t.Helper()
	o := packed.Pack(w)
	require.Equal(t, w.Key(), o.Key(), message...)
	require.Equal(t, policy.Clone(w), o.Unpack(), message...)
	require.True(t, packed.Equal(o, packed.Pack(policy.Clone(w))), message...)
}

// Pack keeps every field of an endpoint, including future ones.
func TestEveryFieldIsPacked(t *testing.T) {
	whole := &policy.WorkloadEndpoint{}
	var fill filler
	for i := range reflect.TypeFor[policy.WorkloadEndpoint]().NumField() {
		alone := &policy.WorkloadEndpoint{}
		name := reflect.TypeFor[policy.WorkloadEndpoint]().Field(i).Name
		fill.value(reflect.ValueOf(alone).Elem().Field(i))
		fill.value(reflect.ValueOf(whole).Elem().Field(i))
		require.False(t, policy.Equal(alone, &policy.WorkloadEndpoint{}), "%s is not filled", name)
		require.False(t, packed.Equal(packed.Pack(alone), packed.Pack(&policy.WorkloadEndpoint{})), name)
		roundTrip(t, alone, name)
	}
	roundTrip(t, whole)
}

// filler sets all fields of a value, recursively, to different values.
type filler int

func (f *filler) value(v reflect.Value) {
	*f++
	switch p := v.Addr().Interface().(type) {
	case *netip.Addr:
		*p = netip.AddrFrom4([4]byte{10, 0, 0, byte(*f)})
		return
	case *netip.Prefix:
		*p = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(*f)}), 24)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text" + strconv.Itoa(int(*f)))
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(uint64(*f))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.value(v.Index(0))
		f.value(v.Index(1))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"some": "thing", "other": "thing of some length"}))
	case reflect.Struct:
		for i := range v.NumField() {
			f.value(v.Field(i))
		}
	default:
		panic("filler: " + v.Kind().String())
	}
}

// Pack and Unpack return an equal endpoint, valid or not. Different endpoints have different packed
// forms.
func TestRandomEndpoints(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		a, b := random(rng), random(rng)
		roundTrip(t, a, "seed %d", seed)
		require.Equal(t, policy.Equal(a, b), packed.Equal(packed.Pack(a), packed.Pack(b)), "seed %d", seed)
		if rng.IntN(2) == 0 { // differ in at most one field
			b = policy.Clone(a).(*policy.WorkloadEndpoint)
			v := reflect.ValueOf(b).Elem()
			v.Field(rng.IntN(v.NumField())).SetZero()
		}
		require.Equal(t, policy.Equal(a, b), packed.Equal(packed.Pack(a), packed.Pack(b)), "seed %d", seed)
	}
}

func random(rng *rand.Rand) *policy.WorkloadEndpoint {
	name := text(rng)
	w := &policy.WorkloadEndpoint{
		Namespace: text(rng), Name: name, Node: text(rng), Interface: text(rng), MAC: text(rng),
		AdminState: policy.AdminState(text(rng)), Addresses: several(rng, address), Profiles: several(rng, text),
		Ports: several(rng, func(rng *rand.Rand) policy.EndpointPort {
			return policy.EndpointPort{
				Name: text(rng), Protocol: policy.Protocol(rng.IntN(256)), Port: uint16(rng.IntN(65536)),
			}
		}),
		IPNATs: several(rng, func(rng *rand.Rand) policy.IPNAT {
			return policy.IPNAT{InternalIP: address(rng), ExternalIP: address(rng)}
		}),
		AllowSpoofedSourcePrefixes: several(rng, func(rng *rand.Rand) netip.Prefix {
			return netip.PrefixFrom(address(rng), rng.IntN(140)-2)
		}),
	}
	if n := rng.IntN(4); n > 0 {
		w.Labels = map[string]string{}
		for range n {
			w.Labels[text(rng)] = []string{text(rng), name}[rng.IntN(2)]
		}
	}
	return w
}

func several[T any](rng *rand.Rand, one func(*rand.Rand) T) []T {
	var all []T
	for range rng.IntN(4) {
		all = append(all, one(rng))
	}
	return all
}

// text returns up to 300 equal random bytes, which may be invalid UTF-8.
func text(rng *rand.Rand) string {
	return strings.Repeat(string([]byte{byte(rng.IntN(256))}), []int{0, 1, 2, 7, 8, 9, 127, 128, 300}[rng.IntN(9)])
}

// address returns an IPv4 or IPv6 address, some with a zone or IPv4-mapped, or an invalid one.
func address(rng *rand.Rand) netip.Addr {
	v4 := netip.AddrFrom4([4]byte{10, 0, 0, byte(rng.Uint32())})
	v6 := netip.AddrFrom16([16]byte{0xfe, 0x80, 15: byte(rng.Uint32())})
	return []netip.Addr{
		{}, v4, v6, v6.WithZone("eth0"), netip.AddrFrom16(v4.As16()), netip.IPv6Unspecified(),
	}[rng.IntN(6)]
}

// FuzzEndpoint packs endpoints that are decoded from JSON.
func FuzzEndpoint(f *testing.F) {
	f.Add(`{"kind":"WorkloadEndpoint","name":"web","node":"n","interface":"way1","labels":{"app":"web",` +
		`"pod":"web"},"addresses":["10.0.0.1"]}`)
	f.Add(`{"kind":"WorkloadEndpoint","name":"web","ports":[{"name":"http","protocol":"TCP","port":80}],` +
		`"ipNATs":[{"internalIP":"::1"}]}`)
	f.Fuzz(func(t *testing.T, data string) {
		r, err := policy.Decode([]byte(data))
		if err != nil {
			return
		}
		require.True(t, policy.Equal(r, packed.Pack(r).Unpack()))
		require.Equal(t, r.Key(), packed.Pack(r).Key())
	})
}

// An empty list equals a missing one. Pack does not change other kinds.
func TestEqual(t *testing.T) {
	none := &policy.WorkloadEndpoint{Name: "a"}
	empty := &policy.WorkloadEndpoint{Name: "a", Labels: map[string]string{}, Profiles: []string{}}
	require.True(t, packed.Equal(packed.Pack(none), packed.Pack(empty)))
	tier := &policy.Tier{Name: "a"}
	require.Same(t, tier, packed.Pack(tier).Unpack())
	require.Equal(t, tier.Key(), packed.Pack(tier).Key())
	require.True(t, packed.Equal(packed.Pack(tier), packed.Pack(&policy.Tier{Name: "a"})))
	require.False(t, packed.Equal(packed.Pack(tier), packed.Pack(none)))
	require.False(t, packed.Equal(nil, packed.Pack(none)))
	require.False(t, packed.Equal(packed.Pack(none), nil))
	require.True(t, packed.Equal(nil, nil))
	require.Nil(t, packed.Unpack(nil))
	require.Nil(t, packed.Pack(nil))
	require.Nil(t, packed.Pack((*policy.WorkloadEndpoint)(nil)))
}

// Replaced endpoints release the memory of their strings.
func TestReplacedEndpointsReleaseMemory(t *testing.T) {
	var objects packed.Objects
	inUse := func() uint64 {
		var m runtime.MemStats
		for range 3 { // interned strings are freed by several collections
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const rounds, endpoints = 10, 10_000
	var first uint64
	for round := range rounds {
		for i := range endpoints {
			id := fmt.Sprintf("%d-and-%d", round, i)
			o := packed.Pack(&policy.WorkloadEndpoint{
				Namespace: "ns", Name: strconv.Itoa(i), Node: "node-" + id, Profiles: []string{"profile-" + id},
				Labels: map[string]string{"label-" + id: "value-" + id},
			})
			objects.Set(o.Key(), o)
		}
		if round == 0 {
			first = inUse()
		}
	}
	require.Equal(t, endpoints, len(objects.Keys()))
	require.Less(t, inUse(), first+first/2, "after ten rounds, compared with the first")
	runtime.KeepAlive(&objects)
}

// Strings that endpoints share are stored once.
func TestSharedStringsAreStoredOnce(t *testing.T) {
	pod := func(i int) *policy.WorkloadEndpoint {
		name := fmt.Sprintf("frontend-5d4f8c7b9d-%05d", i)
		return &policy.WorkloadEndpoint{
			Namespace: "shop", Name: name, Node: "node-with-a-name-of-some-length",
			Interface: fmt.Sprintf("cali%011d", i),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})},
			Profiles:  []string{"kns.shop", "ksa.shop.default"},
			Labels: map[string]string{
				"app.kubernetes.io/name": "frontend", "pod-template-hash": "5d4f8c7b9d",
				"app.kubernetes.io/instance": "frontend-production", "statefulset.kubernetes.io/pod-name": name,
			},
		}
	}
	const endpoints = 10_000
	objects := make([]packed.Object, endpoints)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range objects {
		objects[i] = packed.Pack(pod(i))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(endpoints*160),
		"bytes; unpacked endpoints need about 1,000 each")
	runtime.KeepAlive(objects)
}

// Several goroutines may use an object, and pack equal ones, at the same time.
func TestConcurrentUse(t *testing.T) {
	w := random(rand.New(rand.NewPCG(1, 0)))
	shared := packed.Pack(w)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				if !packed.Equal(shared, packed.Pack(shared.Unpack())) {
					t.Error("differs")
				}
			}
		})
	}
	all.Wait()
}

// An Index equals a map after random changes.
func TestIndexEqualsMap(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var index packed.Index[int]
		naive := map[policy.Key]int{}
		for i := range 200 {
			key := policy.Key{
				Kind: policy.Kinds()[rng.IntN(2)], Namespace: strconv.Itoa(rng.IntN(2)),
				Name: strconv.Itoa(rng.IntN(4)),
			}
			if rng.IntN(2) == 0 {
				index.Set(key, i)
				naive[key] = i
			} else {
				index.Delete(key)
				delete(naive, key)
			}
			got, ok := index.Get(key)
			want, has := naive[key]
			require.Equal(t, want, got, "seed %d", seed)
			require.Equal(t, has, ok, "seed %d", seed)
			require.Equal(t, len(naive), len(index.Keys()), "seed %d", seed)
			all := map[policy.Key]int{}
			for key, v := range index.All() {
				all[key] = v
			}
			require.Equal(t, naive, all, "seed %d", seed)
			require.Equal(t, slices.SortedFunc(maps.Keys(naive), policy.Key.Compare),
				append([]policy.Key(nil), index.Keys()...), "seed %d", seed)
		}
		for range index.All() {
			break
		}
	}
}

// Set accepts an object under another key than its own. Set with nil removes it.
func TestObjects(t *testing.T) {
	var objects packed.Objects
	w := &policy.WorkloadEndpoint{Namespace: "ns", Name: "a"}
	other := policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "b"}
	require.Nil(t, objects.Get(w.Key()))
	objects.Set(w.Key(), packed.Pack(w))
	objects.Set(other, packed.Pack(w))
	require.Equal(t, []policy.Key{other, w.Key()}, objects.Keys())
	require.Equal(t, w, objects.Get(other).Unpack())
	objects.Set(other, nil)
	objects.Set(other, nil)
	require.Equal(t, []policy.Key{w.Key()}, objects.Keys())
}
