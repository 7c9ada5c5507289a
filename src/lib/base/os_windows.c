/* os_windows.c: os.h on Windows Vista and later. Tested under Wine
 * (tests/package/check_windows.sh), not yet on Windows. Windows has no simple counterpart of
 * owner and mode bits: a new folder inherits its parent's access list, so callers should choose
 * one in the user's profile. The code still checks that the folder and its files are no reparse
 * points (symbolic links, junctions), and holds the folder open so that it cannot be replaced. */
#define WIN32_LEAN_AND_MEAN
#define UNICODE
#include "base/os.h"

#include "base/host.h"

#include <windows.h>
#include <stdalign.h>
#include <string.h>
#include <time.h>

uint64_t cla_os_time_ns(void) {
    LARGE_INTEGER ticks, per_second;
    (void)QueryPerformanceCounter(&ticks);
    (void)QueryPerformanceFrequency(&per_second);
    const uint64_t t = (uint64_t)ticks.QuadPart, f = (uint64_t)per_second.QuadPart;
    /* Convert whole seconds separately: ticks * 10^9 would overflow 64 bits after half an hour
     * at 10 MHz. */
    return t / f * 1000000000u + t % f * 1000000000u / f;
}

int64_t cla_os_date_s(void) {
    const time_t now = time(NULL);
    return now > 0 ? (int64_t)now : 0;
}

_Static_assert(sizeof(SRWLOCK) <= sizeof(os_mutex), "os_mutex holds an SRWLOCK");
_Static_assert(alignof(SRWLOCK) <= alignof(os_mutex), "os_mutex is aligned for an SRWLOCK");

static SRWLOCK *native(os_mutex *mutex) {
    return (SRWLOCK *)(void *)mutex;
}

bool cla_os_mutex_init(os_mutex *mutex) {
    InitializeSRWLock(native(mutex));
    return true;
}
void cla_os_mutex_lock(os_mutex *mutex) {
    AcquireSRWLockExclusive(native(mutex));
}
void cla_os_mutex_unlock(os_mutex *mutex) {
    ReleaseSRWLockExclusive(native(mutex));
}
void cla_os_mutex_destroy(os_mutex *mutex) {
    (void)mutex;
}

_Static_assert(sizeof(CONDITION_VARIABLE) <= sizeof(os_condition), "os_condition holds Windows' own");
_Static_assert(alignof(CONDITION_VARIABLE) <= alignof(os_condition), "os_condition is aligned for it");

static CONDITION_VARIABLE *native_condition(os_condition *condition) {
    return (CONDITION_VARIABLE *)(void *)condition;
}

bool cla_os_condition_init(os_condition *condition) {
    InitializeConditionVariable(native_condition(condition));
    return true;
}
void cla_os_condition_wait(os_condition *condition, os_mutex *held) {
    (void)SleepConditionVariableSRW(native_condition(condition), native(held), INFINITE, 0);
}
void cla_os_condition_wait_for(os_condition *condition, os_mutex *held, uint64_t ns) {
    const uint64_t ms = ns / 1000000 + 1;
    (void)SleepConditionVariableSRW(native_condition(condition), native(held),
                                    ms < INFINITE ? (DWORD)ms : INFINITE - 1, 0);
}
void cla_os_condition_wake_all(os_condition *condition) {
    WakeAllConditionVariable(native_condition(condition));
}
void cla_os_condition_destroy(os_condition *condition) {
    (void)condition;
}

struct os_watch {
    HANDLE thread, over;
    unsigned seconds;
    void (*see)(void *user);
    void *user;
    const struct clattn_host_memory *host;
};

static DWORD WINAPI watch(void *own) {
    os_watch *w = own;
    if (WaitForSingleObject(w->over, w->seconds * 1000) == WAIT_TIMEOUT) w->see(w->user);
    return 0;
}

os_watch *cla_os_watch_begin(const struct clattn_host_memory *host, unsigned seconds, void (*see)(void *user),
                             void *user) {
    os_watch *w = cla_host_take_zeroed(host, 1, sizeof *w);
    if (!w) return NULL;
    *w = (os_watch){.seconds = seconds, .see = see, .user = user, .host = host};
    w->over = CreateEventW(NULL, TRUE, FALSE, NULL);
    w->thread =
        w->over ? CreateThread(NULL, 8 << 20, watch, w, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL) : NULL;
    if (w->thread) return w;
    if (w->over) (void)CloseHandle(w->over);
    cla_host_release(host, w);
    return NULL;
}

void cla_os_watch_end(os_watch *w) {
    if (!w) return;
    (void)SetEvent(w->over);
    (void)WaitForSingleObject(w->thread, INFINITE);
    (void)CloseHandle(w->thread);
    (void)CloseHandle(w->over);
    cla_host_release(w->host, w);
}

struct os_folder {
    HANDLE handle; /* opened without FILE_SHARE_DELETE, so the folder cannot be replaced */
    wchar_t *path; /* absolute, because the current directory may change */
    const struct clattn_host_memory *host;
};

static wchar_t *wide_of(const struct clattn_host_memory *host, const char *utf8) {
    const int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, NULL, 0);
    wchar_t *wide = count > 0 ? cla_host_take(host, (size_t)count * sizeof *wide) : NULL;
    if (wide) (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, wide, count);
    return wide;
}

/* Convert to the form without the limit of 260 characters: \\?\C:\folder or
 * \\?\UNC\server\share. A path that already has such a prefix is unchanged. */
static wchar_t *absolute_path(const struct clattn_host_memory *host, const char *utf8) {
    static const wchar_t drive[] = L"\\\\?\\", server[] = L"\\\\?\\UNC";
    wchar_t *wide = wide_of(host, utf8), *path = NULL;
    const DWORD count = wide ? GetFullPathNameW(wide, 0, NULL, NULL) : 0;
    const size_t room = sizeof server / sizeof *server;
    if (count) path = cla_host_take(host, (count + room) * sizeof *path);
    const DWORD length = path ? GetFullPathNameW(wide, count, path + room, NULL) : 0;
    cla_host_release(host, wide);
    if (!length || length >= count) {
        cla_host_release(host, path);
        return NULL;
    }
    const bool shared = path[room] == L'\\' && path[room + 1] == L'\\';
    const bool prefixed = shared && (path[room + 2] == L'?' || path[room + 2] == L'.');
    const wchar_t *prefix = prefixed ? L"" : shared ? server : drive;
    /* `skipped`: one of a share's two leading backslashes is dropped. */
    const size_t head = wcslen(prefix), skipped = shared && !prefixed ? 1 : 0;
    memmove(path + head, path + room + skipped, (length + 1 - skipped) * sizeof *path);
    memcpy(path, prefix, head * sizeof *path);
    return path;
}

static wchar_t *path_of_file(const os_folder *folder, const char *name) {
    wchar_t *wide = wide_of(folder->host, name);
    const size_t head = wcslen(folder->path), tail = wide ? wcslen(wide) : 0;
    wchar_t *path = wide ? cla_host_take(folder->host, (head + tail + 2) * sizeof *path) : NULL;
    if (path) {
        memcpy(path, folder->path, head * sizeof *path);
        path[head] = L'\\';
        memcpy(path + head + 1, wide, (tail + 1) * sizeof *path);
    }
    cla_host_release(folder->host, wide);
    return path;
}

static bool is_plain(HANDLE handle, DWORD directory, uint64_t *size) {
    BY_HANDLE_FILE_INFORMATION info;
    if (GetFileType(handle) != FILE_TYPE_DISK || !GetFileInformationByHandle(handle, &info)) return false;
    if (info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) return false;
    if (size) *size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
    return (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == directory;
}

static HANDLE open_directory(const wchar_t *path) {
    /* Windows opens a directory only with FILE_FLAG_BACKUP_SEMANTICS. */
    return CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING,
                       FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
}

os_folder *cla_os_folder_open(const char *path, const struct clattn_host_memory *host, const char **why) {
    os_folder *folder = cla_host_take(host, sizeof *folder);
    *why = "no memory";
    if (!folder) return NULL;
    *why = "it is no folder, a link, or cannot be opened or created";
    *folder = (os_folder){.handle = INVALID_HANDLE_VALUE, .host = host};
    folder->path = absolute_path(host, path);
    if (folder->path) {
        /* The open below fails if the parent is missing, and accepts a folder that already
         * exists. */
        (void)CreateDirectoryW(folder->path, NULL);
        folder->handle = open_directory(folder->path);
    }
    if (folder->handle != INVALID_HANDLE_VALUE && is_plain(folder->handle, FILE_ATTRIBUTE_DIRECTORY, NULL))
        return folder;
    cla_os_folder_close(folder);
    return NULL;
}

void cla_os_folder_close(os_folder *folder) {
    if (!folder) return;
    if (folder->handle != INVALID_HANDLE_VALUE) (void)CloseHandle(folder->handle);
    cla_host_release(folder->host, folder->path);
    cla_host_release(folder->host, folder);
}

static DWORD chunk_of(size_t count) {
    return count < (1u << 20) ? (DWORD)count : 1u << 20;
}

/* Read up to `capacity` bytes. Fewer are read only at the end of the file or on an error. */
static size_t read_up_to(HANDLE file, unsigned char *bytes, size_t capacity) {
    size_t done = 0;
    DWORD n = 0;
    while (done < capacity && ReadFile(file, bytes + done, chunk_of(capacity - done), &n, NULL) && n)
        done += n;
    return done;
}

static bool read_open_file(const struct clattn_host_memory *host, HANDLE file, size_t max_bytes,
                           unsigned char **bytes, size_t *count) {
    uint64_t size = 0;
    if (!is_plain(file, 0, &size) || size > max_bytes) return false;
    /* Read one byte more than the size, to notice a file that has grown since. */
    unsigned char *buffer = cla_host_take(host, (size_t)size + 1);
    if (!buffer) return false;
    if (read_up_to(file, buffer, (size_t)size + 1) != size) {
        cla_host_release(host, buffer);
        return false;
    }
    *bytes = buffer;
    *count = (size_t)size;
    return true;
}

bool cla_os_folder_read(os_folder *folder, const char *name, size_t max_bytes, unsigned char **bytes,
                        size_t *count) {
    wchar_t *path = path_of_file(folder, name);
    if (!path) return false;
    const HANDLE file =
        CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                    OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    cla_host_release(folder->host, path);
    if (file == INVALID_HANDLE_VALUE) return false;
    const bool done = read_open_file(folder->host, file, max_bytes, bytes, count);
    (void)CloseHandle(file);
    return done;
}

static bool write_all(HANDLE file, const unsigned char *bytes, size_t count) {
    size_t done = 0;
    while (done < count) {
        DWORD n = 0;
        if (!WriteFile(file, bytes + done, chunk_of(count - done), &n, NULL) || !n) return false;
        done += n;
    }
    return true;
}

static void append_hex(char *text, uint64_t value) {
    char *end = text + strlen(text);
    for (int shift = 60; shift >= 0; shift -= 4) *end++ = "0123456789abcdef"[value >> shift & 15];
    *end = '\0';
}

/* CREATE_NEW makes the name unique. Process, thread and time make collisions rare; a collision
 * fails the store. */
static wchar_t *temporary_path(const os_folder *folder) {
    char name[64] = OS_TEMPORARY;
    append_hex(name, (uint64_t)GetCurrentProcessId() << 32 | GetCurrentThreadId());
    append_hex(name, cla_os_time_ns());
    return path_of_file(folder, name);
}

static bool write_new_file(const wchar_t *path, const void *bytes, size_t count) {
    const HANDLE file = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) return false;
    bool done = write_all(file, bytes, count) && FlushFileBuffers(file);
    done = CloseHandle(file) && done;
    if (!done) (void)DeleteFileW(path);
    return done;
}

bool cla_os_folder_write(os_folder *folder, const char *name, const void *bytes, size_t count) {
    wchar_t *path = path_of_file(folder, name), *temporary = temporary_path(folder);
    bool done = path && temporary && write_new_file(temporary, bytes, count);
    if (done && !MoveFileExW(temporary, path, MOVEFILE_REPLACE_EXISTING))
        done = RemoveDirectoryW(path) && MoveFileExW(temporary, path, 0);
    if (!done && temporary) (void)DeleteFileW(temporary);
    cla_host_release(folder->host, path);
    cla_host_release(folder->host, temporary);
    return done;
}

void cla_os_folder_remove(os_folder *folder, const char *name) {
    wchar_t *path = path_of_file(folder, name);
    if (path) (void)DeleteFileW(path);
    cla_host_release(folder->host, path);
}

/* Opened without sharing: nobody else can open the file until the handle is closed. The system
 * closes the handle when the process ends. */
bool cla_os_folder_hold(os_folder *folder, const char *name, bool creates, os_held *held) {
    wchar_t *path = path_of_file(folder, name);
    unsigned char digit = '0';
    uint64_t size = 0;
    *held = (os_held){.handle = NULL};
    const HANDLE file =
        path ? CreateFileW(path, GENERIC_READ | GENERIC_WRITE, 0, NULL, creates ? OPEN_ALWAYS : OPEN_EXISTING,
                           FILE_FLAG_OPEN_REPARSE_POINT, NULL)
             : INVALID_HANDLE_VALUE;
    cla_host_release(folder->host, path);
    if (file == INVALID_HANDLE_VALUE) return false;
    if (!is_plain(file, 0, &size)) {
        (void)CloseHandle(file);
        return false;
    }
    if (read_up_to(file, &digit, 1) == 1 && digit >= '0' && digit <= '9') held->number = digit - '0';
    held->handle = file;
    return true;
}

void cla_os_held_set(os_held *held, int number) {
    const unsigned char digit = (unsigned char)('0' + (number > 9 ? 9 : number));
    LARGE_INTEGER start = {.QuadPart = 0};
    if (held->handle && SetFilePointerEx(held->handle, start, NULL, FILE_BEGIN) &&
        write_all(held->handle, &digit, 1))
        held->number = number;
}

void cla_os_held_let_go(os_folder *folder, const char *name, os_held *held) {
    if (!held->handle) return;
    (void)CloseHandle(held->handle);
    held->handle = NULL;
    if (!held->number) cla_os_folder_remove(folder, name);
}

void cla_os_folder_touch(os_folder *folder, const char *name) {
    wchar_t *path = path_of_file(folder, name);
    const HANDLE file = path ? CreateFileW(path, FILE_WRITE_ATTRIBUTES,
                                           FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                           OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, NULL)
                             : INVALID_HANDLE_VALUE;
    FILETIME now;
    cla_host_release(folder->host, path);
    if (file == INVALID_HANDLE_VALUE) return;
    GetSystemTimeAsFileTime(&now);
    (void)SetFileTime(file, NULL, NULL, &now);
    (void)CloseHandle(file);
}

static uint64_t hundreds_of_ns(FILETIME t) {
    return (uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime;
}

/* True if it is a plain file whose name fits into os_file. */
static bool describe(const WIN32_FIND_DATAW *found, uint64_t now, os_file *file) {
    const uint64_t written = hundreds_of_ns(found->ftLastWriteTime);
    if (found->dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT)) return false;
    *file = (os_file){.bytes = (uint64_t)found->nFileSizeHigh << 32 | found->nFileSizeLow,
                      .age_ns = now > written ? (now - written) * 100 : 0};
    return WideCharToMultiByte(CP_UTF8, 0, found->cFileName, -1, file->name, sizeof file->name, NULL, NULL) >
           0;
}

void cla_os_folder_visit(os_folder *folder, void (*see)(void *user, const os_file *file), void *user) {
    WIN32_FIND_DATAW found;
    FILETIME now;
    wchar_t *pattern = path_of_file(folder, "*");
    const HANDLE search = pattern ? FindFirstFileW(pattern, &found) : INVALID_HANDLE_VALUE;
    cla_host_release(folder->host, pattern);
    if (search == INVALID_HANDLE_VALUE) return;
    GetSystemTimeAsFileTime(&now);
    do {
        os_file file;
        if (describe(&found, hundreds_of_ns(now), &file)) see(user, &file);
    } while (FindNextFileW(search, &found));
    (void)FindClose(search);
}

bool cla_os_cpu_has_dot_bf16(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}

/* AMX is unsupported here. Windows grants tiles for each thread
 * (EnableProcessOptionalXStateFeatures). */
bool cla_os_request_amx(void) {
    return false;
}
bool cla_os_cpu_has_amx_i8(void) {
    return false;
}

void *cla_os_library_open(const char *name) {
    HMODULE process = NULL;
    if (!name) return GetModuleHandleExW(0, NULL, &process) ? (void *)process : NULL;
    wchar_t *wide = wide_of(NULL, name);
    /* Not LoadLibraryW: it also searches the current directory, where anyone may have put a file
     * of that name. */
    void *library = wide ? (void *)LoadLibraryExW(wide, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS) : NULL;
    cla_host_release(NULL, wide);
    return library;
}

void *cla_os_library_symbol(void *library, const char *name) {
    const FARPROC function = GetProcAddress((HMODULE)library, name);
    void *symbol = NULL;
    _Static_assert(sizeof symbol == sizeof function, "a function's address fits an object pointer");
    memcpy(&symbol, &function, sizeof symbol); /* ISO C has no cast between the two */
    return symbol;
}

void cla_os_library_close(void *library) {
    if (library) (void)FreeLibrary((HMODULE)library);
}

char *cla_os_beside_library(const struct clattn_host_memory *host, const char *file) {
    const DWORD flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    enum { MOST = 32768 }; /* upper limit of any path */
    char *(*const here)(const struct clattn_host_memory *, const char *) = cla_os_beside_library;
    HMODULE module = NULL;
    LPCWSTR address = NULL;
    memcpy(&address, &here, sizeof address);
    wchar_t *wide = cla_host_take(host, MOST * sizeof *wide);
    if (wide && (!GetModuleHandleExW(flags, address, &module) || !GetModuleFileNameW(module, wide, MOST)))
        wide[0] = L'\0';
    wchar_t *slash = wide ? wcsrchr(wide, L'\\') : NULL;
    if (slash) slash[1] = L'\0';
    const int folder = slash ? WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL) : 0;
    char *path = folder > 0 ? cla_host_take(host, (size_t)folder + strlen(file)) : NULL;
    if (path && WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, folder, NULL, NULL) > 0)
        memcpy(path + folder - 1, file, strlen(file) + 1);
    cla_host_release(host, wide);
    return path;
}
