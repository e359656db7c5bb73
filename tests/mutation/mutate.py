#!/usr/bin/env python3
"""mutate.py - mechanical mutants of the core: each changes one place of one file, and the unit and random
tests must notice. Prints a table by file, then the survivors. Exit code 1 below 90 % killed, or when a
survivor is not named in survivors.txt.

    mutate.py [--every N] [--only FILE] [--survivors] [--list]
"""
import argparse, collections, os, re, resource, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CC = os.environ.get('CC', 'cc')
FILES = ['radix_cache.c', 'page_pool.c', 'req_table.c', 'client_table.c', 'req.c', 'admission.c', 'submit.c',
         'prefill.c', 'decode.c', 'step.c', 'finish.c', 'outputs.c', 'scheduler.c']
TESTS = ['scheduler_random', 'scheduler', 'scheduler_steps', 'scheduler_cache', 'radix_cache', 'page_pool', 'req_table', 'replay', 'scheduler_rules']

# Functions that only tests call (what they find is tested by breaking things on purpose), and what
# takes or releases memory, where a fault is the sanitizers' matter.
SKIPPED_FUNCTIONS = re.compile(r'check|_init$|_deinit$|create|destroy|^reserve$|^outputs_reserve$')
REPLACED = [('<=', '<'), ('>=', '>'), ('<', '<='), ('>', '>='), ('==', '!='), ('!=', '=='), ('&&', '||'),
            ('||', '&&'), ('+=', '-='), ('-=', '+='), ('++', '--'), ('--', '++'), ('+ 1', '+ 0'), ('- 1', '- 0'),
            ('+', '-'), ('-', '+'), ('true', 'false'), ('false', 'true'), ('(!', '('), ('= 0', '= 1')]
TOKEN = re.compile(r'->|<=|>=|==|!=|&&|\|\||\+=|-=|\+\+|--|<<|>>| \+ 1\b| - 1\b| \+ | - |(?<= )<(?= )|(?<= )>(?= )|'
                   r'\btrue\b|\bfalse\b|\(!| = 0\b')
STATEMENT = re.compile(r'^\s+(?:\*?\(?[a-z_][\w\[\]>.&*()\- ?:]*\s*(?:[-+|&]?=[^=]|\+\+|--)|[a-z_]\w*\(|--|\+\+|\*).*;$|'
                       r'^\s+(?:break|continue|return);$')
DECLARATION = re.compile(r'^\s+(?:const |struct |enum |static |u?int\d*_t |bool |size_t |int |char |return |goto )')

Mutant = collections.namedtuple('Mutant', 'file line old new')


def key(m):
    """How survivors.txt names a mutant."""
    return '%s: %s' % (m.file, 'without ' + m.old.strip() if m.new.strip() == ';' else m.new.strip())


def functions(lines):
    """Yields (name, first, last) of each function's body."""
    name = None
    for i, line in enumerate(lines):
        found = re.match(r'(?:static )?[\w *]+?\**(\w+)\(', line) if not line.startswith((' ', '/', '#', '}')) else None
        if found:
            name = found.group(1)
        if line == '{':
            start = i
        elif line == '}' and name:
            yield name, start + 1, i


def mutants_of(file):
    lines = open(os.path.join(ROOT, 'scheduler_proc', file)).read().split('\n')
    out = []
    for name, first, last in functions(lines):
        if SKIPPED_FUNCTIONS.search(name):
            continue
        for i in range(first, last):
            line = lines[i]
            code = re.sub(r'/\*.*?\*/|"[^"]*"', lambda m: ' ' * len(m.group()), line)
            if re.match(r'^\s*(/?\*[ /]|assert|#|case |\(void\))', line) or 'NO_MEMORY' in line or 'status_error' in line:
                continue
            for token in TOKEN.finditer(code):
                text = token.group()
                for old, new in REPLACED:
                    if text.strip() == old:
                        changed = line[:token.start()] + text.replace(old, new) + line[token.end():]
                        out.append(Mutant(file, i, line, changed))
                        break
            if STATEMENT.match(code) and not DECLARATION.match(code) and not re.search(r'\b(num_)?rounds\b', code):
                out.append(Mutant(file, i, line, re.match(r'^\s*', line).group() + ';'))
    return out


def core_files():
    text = open(os.path.join(ROOT, 'scheduler_proc', 'meson.build')).read()
    text = text[text.index("static_library('scheduler_core'"):]
    return re.findall(r"'(\w+\.c)'", text[:text.index('include_directories')])


class Bench:
    """A copy of the sources with everything compiled."""

    def __init__(self, work):
        self.work = work
        for folder in ('common', 'proto', 'kernels', 'scheduler_proc'):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(work, folder))
        os.makedirs(os.path.join(work, 'tests/unit'))
        for name in os.listdir(os.path.join(ROOT, 'tests/unit')):
            if name.endswith(('.c', '.h')):
                shutil.copy(os.path.join(ROOT, 'tests/unit', name), os.path.join(work, 'tests/unit'))
        self.libs = subprocess.check_output(['pkg-config', '--cflags', '--libs', 'check'], text=True).split()
        self.core = core_files()
        shared = ['tests/unit/%s.c' % n for n in ('fake_model', 'rig', 'traffic', 'traffic_run')]
        self.shared = shared + ['common/status.c', 'common/arena.c']
        for source in ['scheduler_proc/' + f for f in self.core] + self.shared + self.test_files():
            if not self.compile(source):
                sys.exit('mutate: %s does not compile' % source)

    def test_files(self):
        return ['tests/unit/test_%s.c' % t for t in TESTS]

    def object(self, source):
        return os.path.join(self.work, source.replace('/', '_') + '.o')

    def compile(self, source):
        return subprocess.call([CC, '-std=c11', '-O0', '-D_GNU_SOURCE', '-I.', '-c', source, '-o', self.object(source)],
                               cwd=self.work, stderr=subprocess.DEVNULL) == 0

    def noticed_by(self):
        """The name of the first test that fails, or None."""
        objects = [self.object('scheduler_proc/' + f) for f in self.core] + [self.object(s) for s in self.shared]
        env = dict(os.environ, MINISGL_RANDOM_STEPS='30000', MINISGL_RANDOM_SHORTEN='0', CK_FORK='no')
        for test in TESTS:
            program = os.path.join(self.work, 'test')
            subprocess.check_call([CC, self.object('tests/unit/test_%s.c' % test)] + objects + self.libs + ['-o', program])
            # A loop without an end is stopped by its CPU time, whatever else the machine does.
            if subprocess.call([program], cwd=self.work, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (4, 4))) != 0:
                return test
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--every', type=int, default=1, help='only every Nth mutant')
    parser.add_argument('--only', help='one file')
    parser.add_argument('--survivors', action='store_true', help='only those that survivors.txt names')
    parser.add_argument('--list', action='store_true')
    args = parser.parse_args()
    known = {line.strip() for line in open(os.path.join(HERE, 'survivors.txt'))}
    mutants = [m for f in FILES if not args.only or f == args.only for m in mutants_of(f)][::args.every]
    if args.survivors:
        mutants = [m for m in mutants if key(m) in known]
    if args.list:
        for m in mutants:
            print('%s:%d\n-%s\n+%s' % (m.file, m.line + 1, m.old, m.new))
        print(len(mutants))
        return 0
    killed, total, by_test, survivors = collections.Counter(), collections.Counter(), collections.Counter(), []
    with tempfile.TemporaryDirectory(prefix='mutate.') as work:
        bench = Bench(work)
        if bench.noticed_by():
            sys.exit('mutate: the tests fail without a mutant')
        for number, m in enumerate(mutants):
            if sys.stderr.isatty():
                print('\r%d of %d' % (number, len(mutants)), end='', file=sys.stderr)
            source = 'scheduler_proc/' + m.file
            path = os.path.join(work, source)
            original = open(path).read()
            shutil.copy(bench.object(source), path + '.o')
            lines = original.split('\n')
            lines[m.line] = m.new
            open(path, 'w').write('\n'.join(lines))
            if bench.compile(source):
                total[m.file] += 1
                test = bench.noticed_by()
                if test:
                    killed[m.file] += 1
                    by_test[test] += 1
                else:
                    survivors.append(m)
                    print('survives %s:%d\n-%s\n+%s' % (m.file, m.line + 1, m.old, m.new), flush=True)
            open(path, 'w').write(original)
            shutil.copy(path + '.o', bench.object(source))
    print('%-16s %8s %8s' % ('file', 'mutants', 'killed'))
    for f in FILES:
        if total[f]:
            print('%-16s %8d %8d' % (f, total[f], killed[f]))
    share = 100.0 * sum(killed.values()) / max(1, sum(total.values()))
    print('%-16s %8d %8d  (%.1f %%)' % ('all', sum(total.values()), sum(killed.values()), share))
    print('first noticed by: ' + ', '.join('%s %d' % pair for pair in by_test.most_common()))
    unexplained = [m for m in survivors if key(m) not in known]
    for m in unexplained:
        print('not explained: ' + key(m))
    if args.survivors:
        return 0
    return 0 if share >= 90 and not unexplained else 1


sys.exit(main())
