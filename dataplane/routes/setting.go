// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/internal/nsthread"
)

// procSys is the folder of the settings. The files below net show the network namespace of the
// thread that opens them.
const procSys = "/proc/sys/"

func (s Setting) validate() error {
	if path.Clean(s.Path) != s.Path || !strings.HasPrefix(s.Path, "net/") {
		return fmt.Errorf("%w: path is not below net/", ErrObject)
	}
	return nil
}

// settingStore has the desired sysctls by path. slot.have is the value that was last read or
// written.
type settingStore = store[string, Setting]

// concerns reports whether the setting concerns one of the interfaces: by its path, or by its field
// Interface.
func (s Setting) concerns(interfaces map[string]bool) bool {
	name := s.Path // net/ipv4/conf/NAME/...
	for range 3 {
		_, name, _ = strings.Cut(name, "/")
	}
	name, _, _ = strings.Cut(name, "/")
	return name != "" && interfaces[name] || s.Interface != "" && interfaces[s.Interface]
}

// flushSettings marks the settings of changed interfaces as dirty. If another interface has taken
// over a name, the values of the settings are unknown.
func flushSettings(s *settingStore, f *linkEvents) {
	for _, o := range s.slots {
		if o.want.concerns(f.replaced) {
			o.state.present = false
		}
		if o.want.concerns(f.names) || o.want.concerns(f.sysctls) {
			s.markDirty(o)
		}
	}
}

// right reports whether the setting had the desired value when it was last read or written.
func right(o *slot[string, Setting]) bool { return o.state.present && o.have == o.want }

// updateSettings writes the settings that differ from the desired value. If an interface does not
// exist, its settings are at fault until it appears. Settings of a port of Config.Bridges are left
// alone.
func (p *pass) updateSettings() {
	s := p.view.stores.settings
	var want []Setting
	planned := map[Setting]Setting{} // settings of planned devices, by the default that the device will inherit
	dirty := s.takeDirty()
	slices.SortFunc(dirty, func(a, b *slot[string, Setting]) int { return strings.Compare(a.key, b.key) })
	for _, slot := range dirty {
		o := slot.want
		if !slot.desired {
			delete(s.slots, slot.key) // the kernel keeps it
			continue
		}
		link, exists := p.view.links.named(o.Interface)
		if !exists && o.Interface != "" {
			p.noInterface(o.Interface, o, fmt.Errorf("%w: %s", ErrNoInterface, o.Interface))
			s.markDirty(slot)
			continue
		}
		if p.view.links.portNamed(o.Interface) { // an event about the port marks it again
			slot.state.present = false
			continue
		}
		if p.blocked[o.Interface] { // the device may belong to another process
			s.markDirty(slot)
			continue
		}
		if err := o.validate(); err != nil {
			p.result.fail("check sysctl", o, err)
			s.markDirty(slot)
			continue
		}
		if link.Index < 0 {
			start := o
			start.Path = strings.Replace(o.Path, "/"+o.Interface+"/", "/default/", 1)
			planned[start] = o
			o = start
		}
		want = append(want, o)
	}
	block := func(op string, failed map[Setting]error) {
		for _, o := range slices.SortedFunc(maps.Keys(failed), func(a, b Setting) int {
			return strings.Compare(a.Path, b.Path)
		}) {
			p.result.fail(op, o, failed[o])
			p.result.stale = p.result.stale || o.Interface != "" && errors.Is(failed[o], fs.ErrNotExist)
			p.blocked[o.Interface] = p.blocked[o.Interface] || o.Interface != ""
			slot := s.slot(o.Path)
			slot.state.present = false
			s.markDirty(slot)
		}
	}
	differ, former, failed := differingSettings(p.cfg.NetNS, want)
	block("read sysctl", failed)
	if !p.dry {
		p.saveFormer(differ, former)
		refused := writeSettings(p.cfg.NetNS, differ)
		p.settingsDone(want, differ, failed, refused)
		block("set sysctl", refused)
		return
	}
	for _, o := range differ {
		if later, ok := planned[o]; ok {
			o = later
		}
		p.result.print("sysctl -w " + o.String())
	}
}

// settingsDone marks the desired settings as right, except those whose read or write failed. differ
// has the settings that were written.
func (p *pass) settingsDone(want, differ []Setting, failed, refused map[Setting]error) {
	s := p.view.stores.settings
	for _, o := range differ {
		if right(s.slot(o.Path)) && refused[o] == nil {
			p.stats.Repaired++
			p.recordRepair(o.Path, o)
		}
	}
	for _, o := range want {
		if failed[o] == nil && refused[o] == nil {
			s.read(o.Path, 0, o)
		}
	}
}

// saveFormer saves the former values of settings before they are written. It skips a setting that
// was right before: then another process has changed it since, and its present value is not the
// original one.
func (p *pass) saveFormer(differ []Setting, former map[Setting]string) {
	saved := p.saved
	var list, more []savedSysctl
	for _, o := range differ {
		if !right(p.view.stores.settings.slot(o.Path)) {
			list = append(list, savedSysctl{Path: o.Path, Before: former[o], Set: o.Value})
		}
	}
	err := saved.record(list)
	for _, v := range list {
		more = append(more, saved.overwritten(v)...)
	}
	if err = errors.Join(err, saved.record(more)); err != nil {
		p.cfg.Logger.Warn("cannot save the former values of sysctls; a later process cannot restore them",
			"file", p.cfg.SysctlFile, "err", err)
	}
}

// differingSettings returns the settings whose value differs from the desired one, these former
// values, and the errors of settings that could not be read.
func differingSettings(
	namespace int, want []Setting,
) (differ []Setting, former map[Setting]string, failed map[Setting]error) {
	former = map[Setting]string{}
	failed = eachSetting(namespace, want, func(s Setting) error {
		data, err := os.ReadFile(procSys + s.Path)
		if have := strings.TrimSpace(string(data)); err == nil && have != s.Value {
			differ, former[s] = append(differ, s), have
		}
		return err
	})
	return differ, former, failed
}

// writeSettings writes settings. It returns an error for each setting that could not be written.
func writeSettings(namespace int, settings []Setting) (failed map[Setting]error) {
	return eachSetting(namespace, settings, func(s Setting) error {
		file, err := os.OpenFile(procSys+s.Path, os.O_WRONLY, 0) // never created
		if err != nil {
			return err
		}
		_, err = file.WriteString(s.Value)
		return errors.Join(err, file.Close())
	})
}

// eachSetting calls do for each setting, on a thread in the network namespace, and returns the
// errors.
func eachSetting(namespace int, settings []Setting, do func(Setting) error) map[Setting]error {
	if len(settings) == 0 {
		return nil
	}
	failed := map[Setting]error{}
	each := func() error {
		for _, s := range settings {
			if err := do(s); err != nil {
				failed[s] = err
			}
		}
		return nil
	}
	if namespace == 0 {
		_ = each() // returns nil
		return failed
	}
	if err := nsthread.In(namespace, each); err != nil {
		for _, s := range settings {
			failed[s] = err
		}
	}
	return failed
}
