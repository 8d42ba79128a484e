// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// mutate changes every number, text and flag below a value, one at a time, calls visit, and reverts
// the change.
func mutate(v reflect.Value, path string, visit func(path string)) {
	change := func(to any) {
		old := reflect.ValueOf(v.Interface())
		v.Set(reflect.ValueOf(to).Convert(v.Type()))
		visit(path)
		v.Set(old)
	}
	switch v.Kind() {
	case reflect.Bool:
		change(!v.Bool())
	case reflect.String:
		change(v.String() + "x")
	case reflect.Int, reflect.Int64:
		change(v.Int() + 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		change(v.Uint() + 1)
	case reflect.Pointer:
		if !v.IsNil() {
			mutate(v.Elem(), path, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			mutate(v.Index(i), path, visit)
		}
		if v.Len() > 0 {
			old := reflect.ValueOf(v.Interface())
			v.Set(v.Slice(0, v.Len()-1))
			visit(path + " shorter")
			v.Set(old)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			mutate(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Interface:
		old := reflect.ValueOf(v.Interface())
		own := reflect.New(old.Type()).Elem()
		own.Set(old)
		mutate(own, path+"("+old.Type().Name()+")", func(path string) {
			v.Set(own)
			visit(path)
			v.Set(old)
		})
	default:
		panic(v.Kind())
	}
}

// implied reports whether a change has no effect: Timeout implies Timeouts, the end of a single
// value is the value itself, and DeleteAfterGrace is not part of the kernel's set.
func implied(path string, a, b *ruleset.Table) bool {
	return path == "Table.Sets.DeleteAfterGrace" ||
		(path == "Table.Sets.Timeouts" || path == "Table.Sets.Elements.Ends shorter") && a.String() == b.String()
}

// TestEqualComparesEveryField: Equal compares every field of a table, and Clone shares none.
func TestEqualComparesEveryField(t *testing.T) {
	tables, original, copies := wide(), wide(), wide()
	changes := 0
	for i, table := range tables {
		copied := table.Clone()
		mutate(reflect.ValueOf(copied).Elem(), "Table", func(path string) {
			changes++
			require.Equal(t, implied(path, copied, table), copied.Equal(table), path)
			require.True(t, table.Equal(original[i]), "%s is shared", path)
		})
		require.True(t, copied.Equal(table))
		require.True(t, copies[i].Equal(table))
	}
	require.Greater(t, changes, 1000)
}

// TestDiffComparesEveryField: Diff returns operations wherever Equal returns false.
func TestDiffComparesEveryField(t *testing.T) {
	valid := 0
	for _, table := range wide() {
		copied := table.Clone()
		mutate(reflect.ValueOf(copied).Elem(), "Table", func(path string) {
			ops, err := ruleset.Diff(table, copied)
			if err == nil {
				valid++
				require.Equal(t, implied(path, copied, table), len(ops) == 0, path)
			}
		})
	}
	require.Greater(t, valid, 300)
}
