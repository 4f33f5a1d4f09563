//! NVIDIA GPUs through NVML, the driver's management library, loaded at run time where it is installed.
#![expect(unsafe_code, reason = "calls into a C library that is loaded at run time")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::Library;
use tacho_metrics::dcgm::{Found, throttled};
use tacho_metrics::telemetry::{ENERGY, POWER};

pub(super) struct Gpus {
    library: Library,
    devices: Vec<Device>,
}

/// An opaque handle of NVML, valid as long as the library is loaded.
#[derive(Clone, Copy)]
struct Device(*mut c_void);

// SAFETY: NVML is thread-safe and its handles are not bound to a thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// `nvmlTemperatureSensors_t`: the sensor of the GPU die.
const TEMPERATURE_GPU: c_int = 0;
/// `nvmlClockType_t`: the clock of the streaming multiprocessors.
const CLOCK_SM: c_int = 1;
/// `nvmlMemory_v2_t`.
#[repr(C)]
struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

impl Default for Memory {
    /// The version field that NVML expects: the size of the structure and its number.
    fn default() -> Self {
        let version = size_of::<Memory>() as c_uint | 2 << 24;
        Memory { version, total: 0, reserved: 0, free: 0, used: 0 }
    }
}

/// `NVML_DEVICE_NAME_V2_BUFFER_SIZE`.
const NAME_BYTES: usize = 96;

/// Calls a function of the library with arguments of these types; `None` if it is missing or fails.
macro_rules! call {
    ($library:expr, $name:expr $(, $argument:expr => $kind:ty)*) => {{
        // SAFETY: callers name functions of nvml.h with this signature.
        let function = unsafe { $library.get::<unsafe extern "C" fn($($kind),*) -> c_int>($name) };
        // SAFETY: handles came from NVML; pointers are valid for the call and of the type that nvml.h names.
        function.ok().filter(|function| unsafe { function($($argument),*) } == 0).map(drop)
    }};
}

impl Gpus {
    /// `None` if the library or a GPU is missing.
    pub(super) fn find() -> Option<Self> {
        // Drivers install the name with a version; the plain one comes with development files.
        // SAFETY: loading runs the initializers of NVIDIA's library, which have no preconditions.
        let library =
            ["libnvidia-ml.so.1", "libnvidia-ml.so"].iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        call!(library, c"nvmlInit_v2")?;
        let mut count = 0;
        call!(library, c"nvmlDeviceGetCount_v2", &raw mut count => *mut c_uint)?;
        let handle = |index: c_uint| {
            let mut device = std::ptr::null_mut();
            call!(library, c"nvmlDeviceGetHandleByIndex_v2", index => c_uint, &raw mut device => *mut *mut c_void)?;
            Some(Device(device))
        };
        let devices: Vec<Device> = (0..count).filter_map(handle).collect();
        (!devices.is_empty()).then_some(Gpus { library, devices })
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.devices.iter().map(|device| name(&self.library, *device).unwrap_or_default()).collect()
    }

    /// The versions of the driver and of CUDA.
    pub(super) fn versions(&self) -> (Option<String>, Option<String>) {
        let mut text = [0_u8; NAME_BYTES];
        let buffer = text.as_mut_ptr().cast();
        let driver =
            call!(self.library, c"nvmlSystemGetDriverVersion", buffer => *mut c_char, NAME_BYTES as c_uint => c_uint);
        let driver = driver.and_then(|()| Some(CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy().into_owned()));
        let mut cuda: c_int = 0;
        let known = call!(self.library, c"nvmlSystemGetCudaDriverVersion_v2", &raw mut cuda => *mut c_int);
        (driver, known.map(|()| format!("{}.{}", cuda / 1000, cuda % 1000 / 10)))
    }

    /// The readings of each GPU; those it does not support are omitted.
    pub(super) fn sample(&self) -> Vec<Found> {
        let named = |index: usize| move |(name, unit, value)| (format!("gpu{index}"), name, unit, value);
        let devices = self.devices.iter().enumerate();
        devices.flat_map(|(index, device)| self.readings(*device).into_iter().map(named(index))).collect()
    }

    fn readings(&self, device: Device) -> Vec<(&'static str, &'static str, f64)> {
        let library = &self.library;
        let whole = |name| read::<c_ulonglong>(library, name, device).map(|value| value as f64);
        let small = |name| read::<c_uint>(library, name, device).map(f64::from);
        // `nvmlUtilization_t`: GPU, memory. `nvmlMemory_t`: total, free, used.
        let used = read::<[c_uint; 2]>(library, c"nvmlDeviceGetUtilizationRates", device);
        // Older drivers lack the second version and count reserved memory as used.
        let memory = read::<Memory>(library, c"nvmlDeviceGetMemoryInfo_v2", device).map(|memory| memory.used);
        let older = || read::<[c_ulonglong; 3]>(library, c"nvmlDeviceGetMemoryInfo", device).map(|[_, _, used]| used);
        let temperature = read_of(library, c"nvmlDeviceGetTemperature", device, TEMPERATURE_GPU);
        let reasons = read::<c_ulonglong>(library, c"nvmlDeviceGetCurrentClocksThrottleReasons", device);
        let found = [
            (POWER, "W", small(c"nvmlDeviceGetPowerUsage").map(|milliwatts| milliwatts / 1e3)),
            (ENERGY, "J", whole(c"nvmlDeviceGetTotalEnergyConsumption").map(|millijoules| millijoules / 1e3)),
            ("utilization", "%", used.map(|[gpu, _]| f64::from(gpu))),
            ("memory_bandwidth", "%", used.map(|[_, memory]| f64::from(memory))),
            ("memory_used", "GiB", memory.or_else(older).map(|used| used as f64 / (1u64 << 30) as f64)),
            ("temperature", "°C", temperature.map(f64::from)),
            ("sm_clock", "MHz", read_of(library, c"nvmlDeviceGetClockInfo", device, CLOCK_SM).map(f64::from)),
            ("throttled", "", reasons.map(throttled)),
        ];
        found.into_iter().filter_map(|(name, unit, value)| Some((name, unit, value?))).collect()
    }
}

fn name(library: &Library, device: Device) -> Option<String> {
    let mut name = [0_u8; NAME_BYTES];
    let buffer = name.as_mut_ptr().cast();
    call!(library, c"nvmlDeviceGetName", device.0 => *mut c_void, buffer => *mut c_char, NAME_BYTES as c_uint => c_uint)?;
    Some(CStr::from_bytes_until_nul(&name).ok()?.to_string_lossy().into_owned())
}

/// Calls a function that writes one reading of a device.
fn read<T: Default>(library: &Library, name: &CStr, device: Device) -> Option<T> {
    let mut value = T::default();
    call!(library, name, device.0 => *mut c_void, &raw mut value => *mut T)?;
    Some(value)
}

/// Like [`read`], for functions that also take a sensor or a clock type.
fn read_of(library: &Library, name: &CStr, device: Device, kind: c_int) -> Option<c_uint> {
    let mut value = 0;
    call!(library, name, device.0 => *mut c_void, kind => c_int, &raw mut value => *mut c_uint)?;
    Some(value)
}
